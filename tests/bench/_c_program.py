"""Builds a C program of this folder with the library."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pillion

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def build(name: str, directory: Path) -> Path:
    """The program that ``name``.c makes."""
    library = Path(pillion.__file__).with_name("libpillion.so")
    program = directory / name
    paths = [f"-I{ROOT / 'cffi_build' / 'include'}", f"-I{ROOT / 'probes'}"]
    libraries = [str(library), f"-Wl,-rpath,{library.parent}"]
    source = str(HERE / f"{name}.c")
    subprocess.run(["gcc", "-O2", *paths, "-o", str(program), source, *libraries, "-pthread"], check=True)
    return program
