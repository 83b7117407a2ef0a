"""Runs in every Python that ``pillion run`` starts: PYTHONPATH leads here. Without its environment it does nothing.

It needs nothing of Pillion but the library, since the job's Python may be another one than ours, and does next to
nothing until the job imports torch: then torch's operators are recorded from the first one on.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any


def _library_path(ours: str) -> str:
    """The job's own copy where it has one: a process has one libpillion.so, and the job's modules fit theirs."""
    own = importlib.machinery.PathFinder.find_spec("pillion")
    return os.path.join(os.path.dirname(own.origin), "libpillion.so") if own and own.origin else ours


class _AfterTorch:
    """A finder that finds nothing itself: it has a word with torch's loader."""

    def __init__(self, library: str) -> None:
        self._library = library

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec and spec.loader:
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_and_record(module: ModuleType) -> None:
                execute(module)
                self._record_operators(module)

            loader.exec_module = execute_and_record
        return spec

    def _record_operators(self, torch: Any) -> None:
        """The library knows whether somebody records; what does not fit is said, and never the job's problem."""
        import ctypes
        import errno

        missing = ctypes.c_char_p()
        path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
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


def _run_the_other_sitecustomize() -> None:
    """The one that would have run without us."""
    here = os.path.dirname(os.path.abspath(__file__))
    elsewhere = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec and spec.loader:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _start(ours: str) -> None:
    library = _library_path(ours)
    for variable in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64"):
        if os.environ.get(variable) == ours:
            os.environ[variable] = library
    sys.meta_path.insert(0, _AfterTorch(library))


if "PILLION_LIBRARY" in os.environ:
    _start(os.environ["PILLION_LIBRARY"])
_run_the_other_sitecustomize()
