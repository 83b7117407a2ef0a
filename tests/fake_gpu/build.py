"""Builds the stand-ins for libcuda, libcudart and libcupti of one version of CUDA, and programs that link with them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent
VERSIONS = (
    *("11.8", "12.0", "12.1", "12.2", "12.3", "12.4", "12.5", "12.6", "12.8", "12.9"),
    *("13.0", "13.1", "13.2", "13.3", "13.4", "13.5"),
)

_FLAGS = ["-std=gnu2x", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-pthread"]
_LIBRARY_FLAGS = ["-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,nodelete", "-Wl,--no-undefined"]
_CUDA = ("tool", "device", "memory", "driver", "streams", "copies", "kernels")
_CUDART = ("runtime", "runtime_copies", "runtime_kernels")
_CUPTI = ("attach", "callbacks", "kinds", "work_records", "state_records", "queue", "versions")
_SINCE = {
    "cuptiActivityEnableDriverApi": "12.5",
    "cuptiActivityEnableRuntimeApi": "12.5",
    "cuptiActivityEnableCudaEventDeviceTimestamps": "13.0",
}


@dataclass(frozen=True)
class FakeGpu:
    """What was built.

    Attributes:
        directory: of the libraries, under the names that programs load (``libcuda.so.1``) and link (``libcuda.so``).
        version: of CUDA, as in `VERSIONS`.
    """

    directory: Path
    version: str
    libcuda: Path
    libcudart: Path
    libcupti: Path
    sources: Path = SOURCES

    def environment(self, **variables: str) -> dict[str, str]:
        """What a job needs for the stand-ins to be found, and the switches of README.md."""
        paths = [str(self.directory), os.environ.get("LD_LIBRARY_PATH", "")]
        return {"LD_LIBRARY_PATH": ":".join(filter(None, paths)), **variables}

    def compile(self, source: Path, *flags: str) -> Path:
        """A program that links with the stand-ins, compiled once; to run it takes `environment`."""
        program = self.directory / source.stem
        if program.exists():
            return program
        major = f"-DCUDA_MAJOR={self.version.split('.')[0]}"
        libraries = [f"-L{self.directory}", "-lcudart", "-lcuda"]
        subprocess.run(["gcc", *_FLAGS, major, f"-I{SOURCES}", "-o", program, source, *flags, *libraries], check=True)
        return program


def build(directory: Path, version: str = "12.6", missing: Collection[str] = ()) -> FakeGpu:
    """Build the libraries of a version into a directory.

    Args:
        missing: functions that libcupti shall lack.
    """
    major, minor = version.split(".")
    cuda_version = f"-DCUDA_VERSION={int(major) * 1000 + int(minor) * 10}"
    younger = {name for name, since in _SINCE.items() if VERSIONS.index(version) < VERSIONS.index(since)}
    cupti_missing = {*missing, *younger}
    cudart = f"libcudart.so.{'11.0' if major == '11' else major}"
    cupti = f"libcupti.so.{version if major == '11' else major}"
    directory.mkdir(parents=True, exist_ok=True)
    _library(directory, "libcuda.so.1", _CUDA, [cuda_version])
    _library(directory, cudart, _CUDART, [cuda_version, _versioned(directory, cudart, _CUDART, ())])
    default = f'-DDEFAULT_VERSION="{version}"'
    _library(directory, cupti, _CUPTI, [cuda_version, default, _versioned(directory, cupti, _CUPTI, cupti_missing)])
    return FakeGpu(directory, version, directory / "libcuda.so.1", directory / cudart, directory / cupti)


def _versioned(directory: Path, soname: str, modules: Collection[str], missing: Collection[str]) -> str:
    """The linker's flag that gives what the modules export the version node of NVIDIA's library."""
    exported = [
        name
        for module in modules
        for name in re.findall(r"^EXPORT [^;{]*?(\w+)\(", (SOURCES / f"{module}.c").read_text(), re.MULTILINE)
        if name not in missing
    ]
    script = directory / f"{soname}.map"
    script.write_text(f"{soname} {{ global: {' '.join(f'{name};' for name in exported)} local: *; }};\n")
    return f"-Wl,--version-script={script}"


def _library(directory: Path, soname: str, modules: Collection[str], flags: list[str]) -> None:
    sources = [SOURCES / f"{module}.c" for module in modules]
    named = [f"-Wl,-soname,{soname}", "-o", directory / soname]
    subprocess.run(["gcc", *_FLAGS, *_LIBRARY_FLAGS, *flags, *named, *sources], check=True)
    plain = directory / f"{soname.split('.')[0]}.so"
    plain.unlink(missing_ok=True)
    plain.symlink_to(soname)
