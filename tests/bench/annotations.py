"""What an annotation of NVTX or ITT costs; see annotations.c."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pillion

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def main() -> None:
    library = Path(pillion.__file__).with_name("libpillion.so")
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory, "annotations")
        paths = [f"-I{ROOT / 'cffi_build' / 'include'}", f"-I{ROOT / 'probes'}"]
        libraries = [str(library), f"-Wl,-rpath,{library.parent}"]
        subprocess.run(["gcc", "-O2", *paths, "-o", str(program), str(HERE / "annotations.c"), *libraries], check=True)
        subprocess.run([str(program)], check=True)


if __name__ == "__main__":
    main()
