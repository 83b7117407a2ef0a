"""KinetoStepTracker: one count of steps for all who count them."""

from __future__ import annotations

import warnings

from pillion._torch_engine import torch_autograd


class KinetoStepTracker:
    """How many steps the process has made: the greatest count among its requesters, as an optimizer and a profile may
    count the same steps. Process-global; there are no instances."""

    _current_step = 0
    _counts: dict[str, int] = {}  # noqa: RUF012 one for the process

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """A requester begins at the current step."""
        cls._counts[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """A requester counts no more; whether it had."""
        return cls._counts.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """A requester has made a step; returns the current step. A jump by more than one is a warning."""
        if requester not in cls._counts:
            cls.init_step_count(requester)
        cls._counts[requester] += 1
        new = max(cls._counts.values())
        if new > cls._current_step + 1:
            warnings.warn(f"the step count jumps from {cls._current_step} to {new}: {cls._counts}", stacklevel=2)
        autograd = torch_autograd()
        for _ in range(new - cls._current_step if autograd is not None else 0):
            autograd._kineto_step()
        cls._current_step = max(new, cls._current_step)
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """The current step."""
        return cls._current_step
