"""What a Python of ``pillion run`` does when it starts: it waits for torch, to record its operators.

It needs nothing of Pillion but the library, since the job's Python may be another one than ours, and does next to
nothing until the job imports torch: then torch's operators are recorded from the first one on.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import os
import sys
from types import ModuleType
from typing import Any


def _library_path(ours: str) -> str:
    """The job's own copy where it has one: a process has one libpillion.so, and the job's modules fit theirs."""
    own = importlib.machinery.PathFinder.find_spec("pillion")
    return os.path.join(os.path.dirname(own.origin), "libpillion.so") if own and own.origin else ours


class _AfterTorch:
    """A finder that finds nothing itself: it has a word with torch's loader, whoever finds that."""

    def __init__(self, library: str) -> None:
        self._library = library

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec:
                self._attach(spec.loader)
                return spec
        return None

    def _attach(self, loader: Any) -> None:
        """Once torch is executed its operators are recorded; a loader that takes no orders loads it all the same."""
        execute = getattr(loader, "exec_module", None)
        if not execute:
            return

        def execute_and_record(module: ModuleType) -> None:
            del loader.exec_module  # it may load others, too
            execute(module)
            self._record_operators(module)

        with contextlib.suppress(AttributeError, TypeError):
            loader.exec_module = execute_and_record

    def _record_operators(self, torch: Any) -> None:
        """The library knows whether somebody records; what does not fit is said, and never the job's problem."""
        import ctypes
        import errno

        file = getattr(torch, "__file__", None)
        if not file:
            return  # a folder of that name
        missing = ctypes.c_char_p()
        path = os.path.join(os.path.dirname(file), "lib", "libtorch_cpu.so")
        try:
            result = ctypes.CDLL(self._library).pln_torch_start(os.fsencode(path), ctypes.byref(missing))
        except (OSError, AttributeError) as error:
            print(f"pillion: no operators of torch: {error}", file=sys.stderr)
            return
        if result == -errno.ENOSYS and missing.value:
            self._annotate_operators(torch, missing.value.decode())

    def _annotate_operators(self, torch: Any, symbol: str) -> None:
        """The next best: torch's own annotations, for the main thread and autograd's that work for it."""
        version = torch.__version__
        try:
            torch.autograd.profiler.emit_itt().__enter__()
        except Exception as error:
            print(f"pillion: no operators of torch {version}: it has no {symbol}, nor ITT: {error}", file=sys.stderr)
        else:
            print(f"pillion: only the main thread's operators of torch {version}: it has no {symbol}", file=sys.stderr)


def start(ours: str) -> None:
    """ours: the library that the environment names."""
    library = _library_path(ours)
    for variable in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64"):
        if os.environ.get(variable) == ours:
            os.environ[variable] = library
    sys.meta_path.insert(0, _AfterTorch(library))
