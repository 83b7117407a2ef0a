"""The folder that a recording goes to: it appears with the spool inside, and what it would replace is never at risk."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from pillion._capture import META_NAME, SPOOL_NAME
from pillion._errors import CaptureError


class CaptureDirectory:
    """A capture that is being made at ``path``.

    Args:
        path: the folder, which must not exist.
        replace: a capture or an empty folder that is there gives way; it is deleted when the new one is kept.

    Raises:
        CaptureError: something is there already, or is no capture.
    """

    def __init__(self, path: Path, *, replace: bool = False) -> None:
        self.path = path
        self.spool_path = path / SPOOL_NAME
        self._replaced: Path | None = None  # where the old one waits, once it has been moved
        self._made = self._replace = False
        if not os.path.lexists(path):
            return
        if not replace:
            raise CaptureError(f"cannot write {path}", "it exists", "add --force, or name another with -o")
        if not _may_be_replaced(path):
            raise CaptureError(f"cannot replace {path}", "it is not a capture", "name another with -o")
        self._replace = True

    def create_spool(self) -> int:
        """Makes the folder and the empty spool; returns the spool's descriptor, which the caller closes.

        Raises:
            CaptureError: the place cannot be written.
        """
        try:
            if self._replace:
                aside = self.path.with_name(f".{self.path.name}.replaced-{os.getpid()}")
                self.path.rename(aside)
                self._replaced = aside
            self.path.mkdir()
            self._made = True
            return os.open(self.spool_path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            self.discard()
            fix = "name a folder that can be written with -o"
            raise CaptureError(f"cannot write {self.path}", error.strerror or str(error), fix) from error

    def keep(self) -> None:
        """There is something worth keeping: what it replaces goes now."""
        if self._replaced:
            shutil.rmtree(self._replaced, ignore_errors=True)
            self._replaced = None

    def discard(self) -> None:
        """Nothing was recorded: leaves no trace and puts back what was to be replaced."""
        if self._made:
            shutil.rmtree(self.path, ignore_errors=True)
            self._made = False
        if self._replaced:
            self._replaced.rename(self.path)
            self._replaced = None

    def has_data(self) -> bool:
        """Whether there are tables, or a spool in which a collector wrote anything."""
        with contextlib.suppress(OSError):
            return self.spool_path.stat().st_size > 0
        return (self.path / META_NAME).exists()

    def size_bytes(self) -> int:
        """Of all files in the folder."""
        return sum(entry.stat().st_size for entry in os.scandir(self.path) if entry.is_file())


def default_path(stem: str, pid: int) -> Path:
    """``train-20261130T001333-p4821.pillion`` in the current folder, in local time."""
    return Path(f"{stem}-{time.strftime('%Y%m%dT%H%M%S')}-p{pid}.pillion")


def command_stem(command: Sequence[str]) -> str:
    """What a command line is about: the script or module that a Python runs, else the command's own name."""
    stem = Path(command[0]).stem or "process"
    if not stem.startswith("python"):
        return stem
    arguments = iter(command[1:])
    for argument in arguments:
        if argument == "-m":
            return next(arguments, stem).rpartition(".")[2] or stem
        if argument == "-c":
            return stem
        if argument in ("-W", "-X"):
            next(arguments, None)
        elif not argument.startswith("-"):
            return Path(argument).stem or stem
    return stem


def _may_be_replaced(path: Path) -> bool:
    try:
        names = os.listdir(path)
    except OSError:
        return False
    return not names or META_NAME in names or SPOOL_NAME in names
