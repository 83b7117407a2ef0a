"""``emit_itt`` and ``emit_nvtx``: torch's operators and ``record_function``'s ranges for VTune or Nsight Systems.

torch itself emits its operators, as it names them: for NVTX with ``, seq = N``, ``, op_id = N`` and ``, sizes = …``.
The ranges of ``record_function`` go by their name, without torch as well: autograd's numbers are of operators alone.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, ClassVar, TypeVar

from pillion._errors import Unavailable
from pillion.profiler._annotator import PACKAGES, Annotator
from pillion.torch_engine.engine import (
    TorchEngine,
    TorchOptions,
    is_profiler_enabled,
    run_on_profiler_start,
    run_on_profiler_stop,
    torch_autograd,
)

_Emitter = TypeVar("_Emitter", bound="_Emit")


class _Emit:
    """What both have in common."""

    _name: ClassVar[str]
    _needs: ClassVar[str]

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes
        self.entered = False
        self._is_on = False
        self._emits_operators = False
        self._annotator: Annotator | None = None

    def __enter__(self: _Emitter) -> _Emitter | None:
        """Begins to emit; None where it is disabled.

        Raises:
            RuntimeError: it was entered before, or a profile or another emitter runs.
            Unavailable: nothing here can emit such ranges.
        """
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError(f"{self._name} annotation context manager is not reentrant: make one for each block")
        if is_profiler_enabled():
            raise RuntimeError(f"a profile or an emitter runs already; {self._name} ranges would not be emitted")
        self.entered = True
        self._start()
        self._is_on = True
        run_on_profiler_start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends it."""
        if self._is_on:
            self._is_on = False
            if self._annotator:
                self._annotator.stop()
            if self._emits_operators:
                self._synchronize()
                torch_autograd()._disable_profiler()
            run_on_profiler_stop()

    def _start(self) -> None:
        autograd, annotator = torch_autograd(), Annotator.of(self._name)
        if autograd is None and annotator is None:
            package = PACKAGES[self._name]
            raise Unavailable(
                f"no {self._name} ranges: neither torch nor the package {package} is here",
                f"pip install {package}, or import torch{self._needs}",
            )
        if autograd is not None:
            self._start_operators(autograd)
            self._emits_operators = True
        if annotator is not None:
            annotator.start()
            self._annotator = annotator

    def _start_operators(self, autograd: Any) -> None:
        options = TorchOptions(record_shapes=self.record_shapes, kind=getattr(autograd.ProfilerState, self._name))
        options.experimental_config = sys.modules["torch"]._C._profiler._ExperimentalConfig()
        engine = TorchEngine(options, _NO_STATS)
        try:
            self._synchronize()
            autograd._enable_profiler(engine.config(), set())
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise Unavailable(f"no {self._name} ranges: {reason}", f"use a torch{self._needs}") from error

    def _synchronize(self) -> None:
        """Waits for the device; nothing to wait for here."""


class emit_itt(_Emit):
    """Every operator of torch and every ``record_function`` becomes an ITT range, for Intel's VTune.

    Without torch it takes the package ittapi to emit the latter.

    Args:
        enabled: False makes it a no-op.
        record_shapes: accepted for torch's sake; ITT ranges have a name only.
    """

    _name = "ITT"
    _needs = " that is built with ITT"


class emit_nvtx(_Emit):
    """Every operator of torch and every ``record_function`` becomes an NVTX range, for Nsight Systems and nvprof.

    Without torch it takes the package nvtx to emit the latter.

    Args:
        enabled: False makes it a no-op.
        record_shapes: adds the sizes of the operators' inputs to the text of their ranges.
    """

    _name = "NVTX"
    _needs = " that is built with CUDA"

    def _synchronize(self) -> None:
        sys.modules["torch"].cuda.synchronize()


_NO_STATS: Any = None  # an emitter keeps no record of what it cost
