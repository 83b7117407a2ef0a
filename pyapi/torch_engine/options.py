"""From the arguments of ``profile`` to what torch's engine shall do, and what only torch's own tools can make of it."""

from __future__ import annotations

import copy
import gzip
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from typing import Any

from pillion._errors import Unavailable
from pillion.torch_engine.engine import TorchEngine, TorchOptions, torch_autograd

_MEMORY_TOOLS = "torch.profiler._memory_profiler"
DEVICES = ("cuda", "xpu", "mtia", "hpu")


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


def usable_device(device: str | None, stacklevel: int) -> str | None:
    """The device, or None with a warning, at ``stacklevel``, where it is none or is not there."""
    if device is None:
        return None
    torch = sys.modules.get("torch") if torch_autograd() is not None else None
    private = torch._C._get_privateuse1_backend_name() if torch is not None else "privateuseone"
    if device not in DEVICES and (device != private or private == "privateuseone"):
        warnings.warn(f"The {device} is not a valid device option.", stacklevel=stacklevel)
        return None
    if device in ("cuda", "xpu", "hpu"):
        module = getattr(torch, device, None)
        if module is None or not module.is_available():
            name = device.upper()
            warnings.warn(f"{name} is not available, disabling {name} profiling", stacklevel=stacklevel)
            return None
    return device


def usable_options(options: TorchOptions) -> TorchOptions:
    """The options less a device that is not there, of which torch warns only: programs name CUDA wherever they run.

    Raises:
        AssertionError: nothing is left.
    """
    device = usable_device(options.use_device, stacklevel=5)
    if device == options.use_device:
        return options
    kinds = torch_autograd().ProfilerActivity
    left = {kinds.CPU} & set(options.activities or ())
    if not left:
        raise AssertionError("No activities specified for the profiler")
    return replace(options, use_device=device, activities=left)


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
    for name in DEVICES:
        if getattr(kinds, name.upper(), None) in chosen:
            return name
    if getattr(kinds, "PrivateUse1", None) in chosen:
        return str(sys.modules["torch"]._C._get_privateuse1_backend_name())
    return None


def memory_profile(engine: TorchEngine | None) -> Any:
    """torch's MemoryProfile of a recording.

    Raises:
        Unavailable: torch recorded nothing.
    """
    if engine is None or engine.result is None:
        raise Unavailable(
            "no memory timeline: torch recorded nothing", "import torch before profile(profile_memory=True)"
        )
    return import_module(_MEMORY_TOOLS).MemoryProfile(engine.result)


def write_memory_timeline(recorded: Any, path: str, device: str | None, use_device: str | None) -> Any:
    """torch's memory timeline, by torch's own tools; the suffix of the path chooses the format.

    Args:
        recorded: torch's MemoryProfile.
        device: as "cuda:1"; None: the first that was profiled, the first CUDA device, or the CPU.
        use_device: the kind of device that was profiled.

    Returns:
        torch's MemoryProfileTimeline.
    """
    timeline = import_module(_MEMORY_TOOLS).MemoryProfileTimeline(recorded)
    place = device or _first_device(use_device)
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
