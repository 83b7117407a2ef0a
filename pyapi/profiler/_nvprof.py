"""``load_nvprof``: the database of nvprof as torch reads it."""

from __future__ import annotations

import os
from pathlib import Path

from pillion.model import EventList, FunctionEvent


class EnforceUnique:
    """Raises at what is seen a second time."""

    def __init__(self) -> None:
        self.seen: set[tuple[object, ...]] = set()

    def see(self, *key: object) -> None:
        """Remember a key.

        Raises:
            RuntimeError: it was seen before.
        """
        if key in self.seen:
            raise RuntimeError(f"duplicate key: {key}")
        self.seen.add(key)


def load_nvprof(path: str | os.PathLike[str]) -> EventList:
    """The NVTX ranges of a database of nvprof, with the kernels that were launched in each; times in µs.

    Raises:
        FileNotFoundError: there is no such file.
        CaptureError: it cannot be read.
    """
    from pillion.importers import import_trace

    if not Path(path).exists():
        raise FileNotFoundError(f"no database of nvprof: {os.fspath(path)}")
    return import_trace(path).function_events


def parse_nvprof_trace(path: str | os.PathLike[str]) -> list[FunctionEvent]:
    """The same as a list of the ranges alone."""
    return [event for event in load_nvprof(path) if event.is_user_annotation and event._on_cpu]
