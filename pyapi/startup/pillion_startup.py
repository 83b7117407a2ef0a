"""What a Python of ``pillion run`` does when it starts: it waits for torch, to record its operators.

It needs nothing of Pillion but the library, since the job's Python may be another one than ours, and does next to
nothing until the job imports torch: then torch's operators are recorded from the first one on, and torch's profiler
gets CUPTI from us when the job uses it.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import os
import sys
from types import ModuleType
from typing import Any

# What torch.profiler, and torch.autograd.profiler, call of torch's engine.
_PROFILER_BEGINS = ("_prepare_profiler", "_enable_profiler")
_PROFILER_ENDS = "_disable_profiler"


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
            if "PILLION_NO_OPS" not in os.environ:
                self._record_operators(module)
            _lend_cupti(module, self._library)

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


def _lend_cupti(torch: Any, library: str) -> None:
    """CUPTI serves one at a time: while the job's own torch profiler records CUDA it is that profiler's, not ours."""
    import ctypes

    profiler = getattr(getattr(torch, "autograd", None), "profiler", None)
    try:
        step_aside = ctypes.CDLL(library).pln_cupti_step_aside
        begins = {name: getattr(profiler, name) for name in _PROFILER_BEGINS}
        end = getattr(profiler, _PROFILER_ENDS)
    except (OSError, AttributeError):
        return  # an older library, or another torch

    def beginning(begin: Any) -> Any:
        def with_cupti(config: Any, activities: Any, *args: Any, **kwargs: Any) -> Any:
            if any(activity.name == "CUDA" for activity in activities):
                step_aside(1)
            return begin(config, activities, *args, **kwargs)

        return with_cupti

    def giving_back(*args: Any, **kwargs: Any) -> Any:
        try:
            return end(*args, **kwargs)
        finally:
            step_aside(0)

    for name, begin in begins.items():
        setattr(profiler, name, beginning(begin))
    setattr(profiler, _PROFILER_ENDS, giving_back)


def start(ours: str) -> None:
    """ours: the library that the environment names."""
    library = _library_path(ours)
    for variable in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64"):
        if os.environ.get(variable) == ours:
            os.environ[variable] = library
    sys.meta_path.insert(0, _AfterTorch(library))
