"""Output files that take their name once they are whole."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

# Above this level gzip costs more than all the rest of an export.
_GZIP_LEVEL = 3


@contextlib.contextmanager
def binary_output(path: str | os.PathLike[str], always_gzip: bool = False) -> Iterator[IO[bytes]]:
    """A file that replaces ``path`` when the block ends well; gzipped where the path ends in ``.gz``.

    What is no regular file (a pipe, /dev/stdout) is written directly.

    Raises:
        OSError: it cannot be written; a file that was there stays as it was.
    """
    target = Path(path)
    is_special = target.exists() and not target.is_file() and not target.is_dir()
    part = target if is_special else target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as raw, _compressed(raw, always_gzip or target.suffix == ".gz") as file:
            yield file
        if not is_special:
            os.replace(part, target)
    except BaseException:
        if not is_special:
            part.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def text_output(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """A UTF-8 text file, as ``binary_output`` makes it. What UTF-8 cannot hold, half a surrogate pair, becomes ``?``.

    Raises:
        OSError: it cannot be written; a file that was there stays as it was.
    """
    with (
        binary_output(path) as binary,
        io.TextIOWrapper(binary, encoding="utf-8", errors="replace", newline="\n", write_through=True) as text,
    ):
        yield text


@contextlib.contextmanager
def _compressed(raw: IO[bytes], is_gzip: bool) -> Iterator[IO[bytes]]:
    if not is_gzip:
        yield raw
        return
    # No name and no time inside: the same capture gives the same bytes.
    with gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0) as file:
        yield file  # type: ignore[misc]
