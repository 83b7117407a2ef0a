"""The setuptools commands that pyproject.toml names: what it takes beyond declarations to build the native parts.

- ``libpillion.so``: every ``src/*/*.c``. A plain shared library, so that its state exists once in a process, whichever
  of the two modules below, or a C program, loads it first.
- ``pillion._native``: cffi's view of every ``include/*.h``.
- ``pillion._range``: ``range_module.c``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cffi import FFI, recompiler
from setuptools import find_packages
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "cffi_build"
INCLUDE_PATHS = (HERE / "include", ROOT / "probes")
SOURCE_PATHS = sorted(HERE.glob("src/*/*.c"))
HEADER_PATHS = sorted(path for directory in (HERE / "src", *INCLUDE_PATHS) for path in directory.rglob("*.h"))

NATIVE_MODULE = "pillion._native"
LIBRARY_NAME = "libpillion.so"
LIBRARY_CFLAGS = ["-std=c11", "-O2", "-fvisibility=hidden", "-fno-plt", "-Wall", "-Wextra"]
LIBRARY_LDFLAGS = ["-pthread", f"-Wl,-soname,{LIBRARY_NAME}", "-Wl,-z,nodelete", "-Wl,-z,relro,-z,now"]

_OWN_INCLUDE = re.compile(r'^#include "([\w.]+)"', re.MULTILINE)
_CONSTANT = re.compile(r"#define \w+ (0x[0-9a-f]+|\d+)\s*$")
_NOT_FOR_CFFI = (
    re.compile(r"/\*.*?\*/", re.DOTALL),
    re.compile(r"^(?:typedef [\w ]+int\d+_t;|PLN_ASSERT\(.*)$", re.MULTILINE),  # cffi knows <stdint.h>
)
_DIRECTIVE = re.compile(r"^#(?:.*\\\n)*.*$", re.MULTILINE)  # with its continuation lines


def _collect(name: str, texts: dict[str, str]) -> None:
    """Adds a header to ``texts``, behind those that it includes."""
    if name in texts:
        return
    path = next(directory / name for directory in INCLUDE_PATHS if (directory / name).exists())
    text = path.read_text(encoding="utf-8")
    for included in _OWN_INCLUDE.findall(text):
        _collect(included, texts)
    texts[name] = text


def declarations() -> str:
    """The public headers without what only a preprocessor understands; constants with a literal value stay."""
    texts: dict[str, str] = {}
    for path in sorted(INCLUDE_PATHS[0].glob("*.h")):
        _collect(path.name, texts)
    text = "\n".join(texts.values())
    for pattern in _NOT_FOR_CFFI:
        text = pattern.sub("", text)
    return _DIRECTIVE.sub(lambda found: found.group() if _CONSTANT.match(found.group()) else "", text)


def write_native_source(path: Path) -> None:
    """Writes the C source of ``pillion._native``."""
    ffi = FFI()
    ffi.cdef(declarations())
    preamble = "".join(f'#include "{header.name}"\n' for header in sorted(INCLUDE_PATHS[0].glob("*.h")))
    path.parent.mkdir(parents=True, exist_ok=True)
    recompiler.make_c_source(ffi, NATIVE_MODULE, preamble, str(path))


class BuildNative(build_ext):
    """Builds the library, then the extension modules that link to it."""

    def build_extensions(self) -> None:
        library_path = self._library_path()
        self._build_library(library_path)
        for extension in self.extensions:
            extension.include_dirs += map(str, INCLUDE_PATHS)
            extension.extra_link_args += [str(library_path), "-Wl,-rpath,$ORIGIN"]
            extension.depends += map(str, [*HEADER_PATHS, library_path])
        super().build_extensions()

    def build_extension(self, ext: Any) -> None:
        if ext.name == NATIVE_MODULE:
            source_path = Path(self.build_temp) / "_native.c"
            write_native_source(source_path)
            ext.sources = [str(source_path)]
        super().build_extension(ext)

    def _library_path(self) -> Path:
        return Path(self.build_lib, "pillion", LIBRARY_NAME)

    def _library_path_inplace(self) -> Path:
        return Path(self.get_finalized_command("build_py").get_package_dir("pillion"), LIBRARY_NAME)

    def _build_library(self, library_path: Path) -> None:
        library_path.parent.mkdir(parents=True, exist_ok=True)
        objects = self.compiler.compile(
            [str(path.relative_to(ROOT)) for path in SOURCE_PATHS],
            output_dir=self.build_temp,
            include_dirs=list(map(str, INCLUDE_PATHS)),
            extra_postargs=LIBRARY_CFLAGS,
        )
        self.compiler.link_shared_object(objects, str(library_path), extra_postargs=LIBRARY_LDFLAGS)

    def get_source_files(self) -> list[str]:
        """For the sdist, which otherwise lacks what no extension lists."""
        headers_and_sources = [*SOURCE_PATHS, *HEADER_PATHS, *HERE.glob("*.py"), *HERE.glob("*.c")]
        return [str(path.relative_to(ROOT)) for path in headers_and_sources]

    def copy_extensions_to_source(self) -> None:
        """For an editable installation."""
        super().copy_extensions_to_source()
        self.copy_file(str(self._library_path()), str(self._library_path_inplace()))

    def get_output_mapping(self) -> dict[str, str]:
        return {**super().get_output_mapping(), str(self._library_path()): str(self._library_path_inplace())}

    def get_outputs(self) -> list[str]:
        return sorted({*super().get_outputs(), str(self._library_path())})


STARTUP = "pillion.startup"  # a folder for PYTHONPATH, not a package: nothing finds it


class BuildPackages(build_py):
    """Adds the sub-packages: setuptools finds none below a folder whose name is not its package's."""

    def finalize_options(self) -> None:
        package_dir = self.distribution.package_dir
        for package, folder in package_dir.items():
            found = (f"{package}.{name}" for name in find_packages(str(ROOT / folder)))
            self.distribution.packages += [name for name in found if name not in self.distribution.packages]
        if STARTUP not in self.distribution.packages:
            self.distribution.packages.append(STARTUP)
        super().finalize_options()
