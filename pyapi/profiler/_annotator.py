"""``record_function``'s ranges as NVTX or ITT annotations, for whatever tool the process has for these.

While an annotator runs, ``record_function`` has methods of its own that annotate; otherwise it costs what it did.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any

from pillion._range import _Range
from pillion._record import record_function

PACKAGES = {"NVTX": "nvtx", "ITT": "ittapi"}  # on PyPI
_DOMAIN = "pillion"  # ITT has no default domain; torch's ranges are in "PyTorch"

_Functions = tuple[Callable[[str], Any], Callable[[], Any]]


class Annotator:
    """Emits the ranges of all threads that begin while it runs, named as they are.

    Args:
        push: begins an annotation of the calling thread.
        pop: ends the innermost one.
    """

    def __init__(self, push: Callable[[str], Any], pop: Callable[[], Any]) -> None:
        self._push = push
        self._pop = pop
        self._open = threading.local()

    @classmethod
    def of(cls, interface: str) -> Annotator | None:
        """Through torch where it has the interface, so that ranges and operators nest, else through its package.

        Args:
            interface: "NVTX" or "ITT".
        """
        functions = _of_torch(interface) or _of_package(interface)
        return cls(*functions) if functions else None

    def start(self) -> None:
        """Ranges that are open already stay unseen."""

        def enter(entered: record_function) -> record_function:
            _Range.__enter__(entered)
            self._push(entered.name)
            self._ranges().append(entered)
            return entered

        def leave(left: record_function, *exception: Any) -> None:
            ranges = self._ranges()
            if left in ranges:
                ranges.remove(left)
                self._pop()
            _Range.__exit__(left, *exception)

        for name, method in (("__enter__", enter), ("__exit__", leave)):
            setattr(record_function, name, method)

    def stop(self) -> None:
        """Ranges of this thread that are open end for the tool; those of other threads it sees open until it ends."""
        for name in ("__enter__", "__exit__"):
            delattr(record_function, name)
        while self._ranges():
            self._ranges().pop()
            self._pop()

    def _ranges(self) -> list[record_function]:
        if not hasattr(self._open, "ranges"):
            self._open.ranges = []
        ranges: list[record_function] = self._open.ranges
        return ranges


def _of_torch(interface: str) -> _Functions | None:
    torch_c = getattr(sys.modules.get("torch"), "_C", None)
    if interface == "NVTX":
        nvtx = getattr(torch_c, "_nvtx", None)  # of builds with CUDA
        return (nvtx.rangePushA, nvtx.rangePop) if nvtx else None
    itt = getattr(torch_c, "_itt", None)
    return (itt.rangePush, itt.rangePop) if itt and itt.is_available() else None


def _of_package(interface: str) -> _Functions | None:
    try:
        package: Any = importlib.import_module(PACKAGES[interface])
        if interface == "NVTX":
            return package.push_range, package.pop_range
        native: Any = importlib.import_module("ittapi.native")
    except ImportError:
        return None
    domain = native.Domain(_DOMAIN)
    handle = functools.lru_cache(4096)(native.StringHandle)
    return lambda text: native.task_begin(domain, handle(text)), lambda: native.task_end(domain)
