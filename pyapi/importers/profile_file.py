"""Which format a file has, by what is in it, and the capture that it becomes."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path

from pillion._capture import Capture
from pillion._errors import CaptureError
from pillion.importers import nsys, nvprof
from pillion.importers.database import MAGIC, Database
from pillion.importers.kineto import import_kineto
from pillion.importers.losses import Losses
from pillion.importers.perf_lines import has_samples
from pillion.importers.perf_script import import_perf_script

_HEAD = 65_536
_PERF_HEADER = b"# ========\n# captured on"  # of `perf script --header`; it may be longer than what is looked at
_FORMATS = "Kineto's or Chrome's JSON, Nsight Systems' or nvprof's SQLite, `perf script`'s text"


def import_trace(path: str | os.PathLike[str]) -> Capture:
    """The capture that another tool's profile holds; its format shows in its content.

    What could not be read is in the capture's table ``losses``.

    Raises:
        CaptureError: the file cannot be read, has none of the known formats, or nothing of it can be used.
    """
    file = Path(path)
    try:
        return _importer(file)(file)
    except OSError as error:
        raise CaptureError(f"cannot import {file}", error.strerror or str(error)) from error


def _importer(path: Path) -> Callable[[Path], Capture]:
    head = _head(path)
    if head.startswith(MAGIC):
        return _database_importer(path)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"{", b"[")):
        return import_kineto
    lines = text.decode("utf-8", "replace").splitlines()
    if text.startswith(_PERF_HEADER) or has_samples(lines):
        return import_perf_script
    cause = "it is empty" if not text else f"its content is none of: {_FORMATS}"
    raise CaptureError(f"cannot import {path}", cause)


def _head(path: Path) -> bytes:
    """The first bytes of what the file holds, unpacked."""
    with open(path, "rb") as file:
        head = file.read(_HEAD)
        if not head.startswith(b"\x1f\x8b"):
            return head
        file.seek(0)
        try:
            return gzip.GzipFile(fileobj=file).read1(_HEAD)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise CaptureError(f"cannot import {path}", f"gzip, damaged from the start on: {error}") from error


def _database_importer(path: Path) -> Callable[[Path], Capture]:
    with Database(path, Losses()) as database:
        tables = database.tables
    if not tables.keys().isdisjoint(nsys.MARKS):
        return nsys.import_nsys
    if tables.keys() >= set(nvprof.MARKS) and any(name.startswith("CUPTI_") for name in tables):
        return nvprof.import_nvprof
    raise CaptureError(f"cannot import {path}", f"an SQLite database of another tool; known are: {_FORMATS}")
