"""KinetoStepTracker: one count of steps for all who count them."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from pillion.torch_engine.engine import torch_autograd

PROFILER_STEP_NAME = "ProfilerStep"  # the requester that a profile with a schedule is


class KinetoStepTracker:
    """How many steps the process has made: the greatest count among its requesters, as an optimizer and a profile may
    count the same steps. Process-global; there are no instances. Where torch is loaded its own tracker counts, since
    its optimizers and its daemon's library use that one."""

    _current_step = 0
    _step_dict: dict[str, int] = {}  # noqa: RUF012 one for the process

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """A requester begins at the current step."""
        theirs = _torchs()
        if theirs is not None:
            theirs.init_step_count(requester)
        else:
            cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """A requester counts no more; whether it had."""
        theirs = _torchs()
        if theirs is not None:
            return bool(theirs.erase_step_count(requester))
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """A requester has made a step; returns the current step. A jump by more than one is a warning."""
        theirs = _torchs()
        if theirs is not None:
            return int(theirs.increment_step(requester))
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        new = max(cls._step_dict.values())
        if new > cls._current_step + 1:
            warnings.warn(
                "Profiler step count has increased more than 1 - "
                f"current_step = {cls._current_step} step dict =  {cls._step_dict}",
                stacklevel=2,
            )
        cls._current_step = max(new, cls._current_step)
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """The current step."""
        theirs = _torchs()
        return cls._current_step if theirs is None else int(theirs.current_step())


def _torchs() -> Any:
    return sys.modules["torch.autograd.profiler"].KinetoStepTracker if torch_autograd() is not None else None
