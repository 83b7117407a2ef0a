"""From the arguments of ``profile`` to what torch's engine shall do, and what only torch's own tools can make of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from pillion._errors import Unavailable
from pillion._torch_engine import TorchEngine, TorchOptions, torch_autograd


def options_of_activities(
    activities: Iterable[Any] | None, *, use_cuda: bool | None = None, **detail: Any
) -> TorchOptions | None:
    """What torch's engine shall collect; None where nothing of it is asked for or the process has no torch.

    Raises:
        ValueError: an activity is given twice.
        TypeError: something is neither an activity nor a dict of them.
    """
    autograd = torch_autograd()
    if autograd is None or not (activities is not None or use_cuda or any(detail.values())):
        return None
    kinds = autograd.ProfilerActivity
    chosen, filters = _split(activities, kinds) if activities is not None else (autograd._supported_activities(), {})
    if use_cuda and kinds.CUDA in autograd._supported_activities():
        chosen = {*chosen, kinds.CUDA}
    if not chosen:
        raise AssertionError("profile() needs at least one activity")
    return TorchOptions(activities=chosen, activity_filters=filters, use_device=_device(chosen, kinds), **detail)


def _split(activities: Iterable[Any], kinds: Any) -> tuple[set[Any], dict[Any, set[str]]]:
    chosen: set[Any] = set()
    filters: dict[Any, set[str]] = {}
    for given in activities:
        for activity in given if isinstance(given, dict) else (given,):
            if not isinstance(activity, kinds):
                raise TypeError(f"an activity is a ProfilerActivity, not {activity!r}")
            if activity in chosen:
                raise ValueError(f"the activity {activity} is given twice")
            chosen.add(activity)
            if isinstance(given, dict):
                filters[activity] = set(given[activity])
    return chosen, filters


def _device(chosen: set[Any], kinds: Any) -> str | None:
    for name in ("CUDA", "XPU", "MTIA", "HPU"):
        if getattr(kinds, name, None) in chosen:
            return name.lower()
    if getattr(kinds, "PrivateUse1", None) in chosen:
        return str(sys.modules["torch"]._C._get_privateuse1_backend_name())
    return None


def write_memory_timeline(engine: TorchEngine | None, path: str, device: str | None) -> None:
    """torch's memory timeline of a recording, by torch's own tools; the suffix of the path chooses the format.

    Raises:
        ValueError: the recording lacks shapes, memory or stacks.
        Unavailable: torch recorded nothing.
    """
    if engine is None or engine.result is None:
        raise Unavailable(
            "no memory timeline: torch recorded nothing", "import torch before profile(profile_memory=True)"
        )
    wants = engine.options
    missing = [name for name in ("record_shapes", "profile_memory", "with_stack") if not getattr(wants, name)]
    if missing:
        raise ValueError(f"a memory timeline needs profile({', '.join(f'{name}=True' for name in missing)})")
    from importlib import import_module

    tools = import_module("torch.profiler._memory_profiler")
    timeline = tools.MemoryProfileTimeline(tools.MemoryProfile(engine.result))
    place = device or (f"{wants.use_device}:0" if wants.use_device else "cpu")
    if path.endswith(".html"):
        timeline.export_memory_timeline_html(path, place)
    elif path.endswith("raw.json.gz"):
        timeline.export_memory_timeline_raw(path, place)
    else:
        timeline.export_memory_timeline(path, place)
