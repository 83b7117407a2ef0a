"""From the arguments of ``profile`` to what torch's engine shall do, and what only torch's own tools can make of it."""

from __future__ import annotations

import copy
import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

from pillion._errors import Unavailable
from pillion.torch_engine.engine import TorchEngine, TorchOptions, torch_autograd


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
        raise AssertionError("No valid profiler activities found")
    return TorchOptions(activities=chosen, activity_filters=filters, use_device=_device(chosen, kinds), **detail)


def with_events(experimental_config: Any) -> Any:
    """torch's experimental settings without ``trace_only``: events are columns here, and cost next to nothing."""
    if not getattr(experimental_config, "trace_only", False):
        return experimental_config
    changed = copy.copy(experimental_config)
    changed.trace_only = False
    return changed


def observer_of_environment() -> Any:
    """The observer that ENABLE_PYTORCH_EXECUTION_TRACE=1 asks torch for, None without."""
    if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE") != "1" or torch_autograd() is None:
        return None
    make = getattr(sys.modules["torch.profiler"].ExecutionTraceObserver, "build_execution_trace_obs_from_env", None)
    return None if make is None else make()


def _split(activities: Iterable[Any], kinds: Any) -> tuple[set[Any], dict[Any, set[str]]]:
    chosen: set[Any] = set()
    filters: dict[Any, set[str]] = {}
    for given in activities:
        for activity in given if isinstance(given, dict) else (given,):
            if not isinstance(activity, kinds):
                raise TypeError(f"Expected ProfilerActivity or dict, got {type(activity)}")
            if activity in chosen:
                raise ValueError(f"Activity {activity} specified more than once")
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


def write_memory_timeline(engine: TorchEngine | None, path: str, device: str | None) -> Any:
    """torch's memory timeline of a recording, by torch's own tools; the suffix of the path chooses the format.

    Returns:
        torch's MemoryProfileTimeline.

    Raises:
        Unavailable: torch recorded nothing.
    """
    if engine is None or engine.result is None:
        raise Unavailable(
            "no memory timeline: torch recorded nothing", "import torch before profile(profile_memory=True)"
        )
    from importlib import import_module

    tools = import_module("torch.profiler._memory_profiler")
    timeline = tools.MemoryProfileTimeline(tools.MemoryProfile(engine.result))
    place = device or _first_device(engine.options.use_device)
    if path.endswith(".html"):
        timeline.export_memory_timeline_html(path, place)
        return timeline
    write = timeline.export_memory_timeline_raw if path.endswith("raw.json.gz") else timeline.export_memory_timeline
    if not path.endswith(".gz"):
        write(path, place)
        return timeline
    with tempfile.NamedTemporaryFile(suffix=".json") as whole:  # torch's tools themselves gzip nothing
        write(whole.name, place)
        with open(whole.name, "rb") as text, gzip.open(path, "wb") as packed:
            shutil.copyfileobj(text, packed)
    return timeline


def _first_device(use_device: str | None) -> str:
    if use_device and use_device != "cuda":
        return f"{use_device}:0"
    return "cuda:0" if sys.modules["torch"].cuda.is_available() else "cpu"
