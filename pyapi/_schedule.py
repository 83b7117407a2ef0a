"""Which steps of a job a profile records: ``schedule`` and what it answers, as torch.profiler has them."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable


class ProfilerAction(enum.Enum):
    """What a profile does during a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


Schedule = Callable[[int], ProfilerAction]


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Schedule:
    """Step number to action: after ``skip_first`` steps come cycles of ``wait``, ``warmup`` and ``active`` steps.

    Args:
        repeat: how many cycles; 0 for as many as there are steps.
        skip_first_wait: not 0: the first cycle begins without its wait.

    Raises:
        AssertionError: a number is negative, or ``active`` is 0.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"a schedule needs numbers of 0 or more and active of 1 or more, not {wait=}, {warmup=}, {active=}, "
            f"{repeat=}, {skip_first=}"
        )
    if warmup == 0:
        warnings.warn("no warm-up: the first steps that are profiled look slower than they are", stacklevel=2)
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"the step {step} is negative")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        number, place = divmod(step, cycle)
        if (repeat and number >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def always(step: int) -> ProfilerAction:
    """The schedule of a profile without one."""
    return ProfilerAction.RECORD
