"""What it costs to record a launch of a kernel, against the stand-ins for CUDA and CUPTI; see cuda_launch.c.

A launch is two calls, cudaLaunchKernel and cuLaunchKernel in it, and a kernel: three records. What is said of the
stand-in is not what NVIDIA's CUPTI takes; ours is the difference to the client that looks at nothing.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pillion

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def fake_gpu(directory: Path) -> Any:
    spec = importlib.util.spec_from_file_location("fake_gpu_build", HERE.parent / "fake_gpu" / "build.py")
    assert spec
    assert spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build(directory)


def main() -> None:
    library = Path(pillion.__file__).with_name("libpillion.so")
    with tempfile.TemporaryDirectory() as directory:
        gpu = fake_gpu(Path(directory))
        includes = [f"-I{ROOT / 'cffi_build' / 'include'}", f"-I{ROOT / 'probes'}"]
        program = gpu.compile(
            HERE / "cuda_launch.c", *includes, f"-L{directory}", "-lcupti", str(library), f"-Wl,-rpath,{library.parent}"
        )
        own = {"CUDA_INJECTION64_PATH": str(library), "PILLION_SOCKET": "/nonexistent", "FAKE_GPU_FAST": "1"}
        own["PILLION_RING_RECORDS"] = "1048576"  # so that none is lost, whoever else wants the CPU
        subprocess.run([program], env={**os.environ, **gpu.environment(**own)}, check=True)


if __name__ == "__main__":
    main()
