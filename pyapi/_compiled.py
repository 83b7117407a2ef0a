"""Ranges in what torch compiles: torch.compile knows torch's ``record_function`` only, and is told that ours is alike.

Without that a range would end the compiled graph, and its block would run uncompiled; ``fullgraph=True`` would fail.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_COMPILER = "torch._dynamo"


def compile_as_torchs(range_type: type) -> None:
    """Has torch.compile take ranges of this type for torch's, as soon as the process has imported the compiler."""
    compiler = sys.modules.get(_COMPILER)
    if compiler is None:
        sys.meta_path.insert(0, _AfterCompiler(range_type))
    else:
        _substitute(compiler, range_type)


def _substitute(compiler: ModuleType, range_type: type) -> None:
    # A torch that takes no such orders, or has not finished its own import, compiles as if nobody had asked.
    with contextlib.suppress(AttributeError, ImportError, TypeError, ValueError):
        compiler.substitute_in_graph(range_type, is_embedded_type=True, skip_signature_check=True)(_torchs)


def _torchs(name: str, args: str | None = None) -> Any:
    """What the compiler sees in place of a range: it reads this function, and nobody calls it."""
    from torch.autograd.profiler import record_function

    return record_function(name, args)


class _AfterCompiler:
    """A finder that finds nothing itself: it has a word with the compiler's loader, once, whoever finds that."""

    def __init__(self, range_type: type) -> None:
        self._range_type = range_type

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _COMPILER:
            return None
        with contextlib.suppress(ValueError):  # another thread was here first
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            self._attach(spec.loader)
        return spec

    def _attach(self, loader: Any) -> None:
        execute = loader.exec_module

        def execute_and_substitute(module: ModuleType) -> None:
            execute(module)
            _substitute(module, self._range_type)

        with contextlib.suppress(AttributeError, TypeError):  # a loader that takes no orders loads it all the same
            loader.exec_module = execute_and_substitute
