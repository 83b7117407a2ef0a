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
def text_output(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """A UTF-8 text file that replaces ``path`` when the block ends well; gzipped where the path ends in ``.gz``.

    What is no regular file (a pipe, /dev/stdout) is written directly.

    Raises:
        OSError: it cannot be written; a file that was there stays as it was.
    """
    target = Path(path)
    is_special = target.exists() and not target.is_file() and not target.is_dir()
    part = target if is_special else target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as raw, _compressed(raw, target) as file:
            yield file
        if not is_special:
            os.replace(part, target)
    except BaseException:
        if not is_special:
            part.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _compressed(raw: IO[bytes], target: Path) -> Iterator[IO[str]]:
    binary: IO[bytes] = raw
    if target.suffix == ".gz":
        # No name and no time inside: the same capture gives the same bytes.
        binary = gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0)  # type: ignore[assignment]
    with io.TextIOWrapper(binary, encoding="utf-8", newline="\n", write_through=True) as text:
        yield text
