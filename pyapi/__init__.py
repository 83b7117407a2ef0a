"""Pillion rides along with a job and tells where its time went.

>>> import pillion
>>> with pillion.profile() as prof:
...     with pillion.record_function("forward"):
...         model(batch)
>>> print(prof.key_averages().table(sort_by="self_cpu_time_total"))

Public names are loaded when they are first used: importing the package reads one small file, loads neither torch nor
numpy nor pyarrow nor the native library, opens nothing and starts nothing.
"""

import typing as _typing

__version__ = "0.1.0"

__all__ = [
    "Capture",
    "CaptureError",
    "PillionError",
    "ProfilerAction",
    "Unavailable",
    "UsageError",
    "__version__",
    "import_trace",
    "open",
    "profile",
    "record_function",
    "schedule",
    "tensorboard_trace_handler",
]

if _typing.TYPE_CHECKING:
    from pillion._capture import Capture
    from pillion._capture import open_capture as open
    from pillion._errors import CaptureError, PillionError, Unavailable, UsageError
    from pillion._profile import profile
    from pillion._record import record_function
    from pillion._schedule import ProfilerAction, schedule
    from pillion._tensorboard import tensorboard_trace_handler
    from pillion.importers import import_trace

# Public name -> (module that owns it, its name there).
_OWNERS = {
    "Capture": ("_capture", "Capture"),
    "CaptureError": ("_errors", "CaptureError"),
    "PillionError": ("_errors", "PillionError"),
    "Unavailable": ("_errors", "Unavailable"),
    "UsageError": ("_errors", "UsageError"),
    "ProfilerAction": ("_schedule", "ProfilerAction"),
    "import_trace": ("importers", "import_trace"),
    "open": ("_capture", "open_capture"),
    "profile": ("_profile", "profile"),
    "record_function": ("_record", "record_function"),
    "schedule": ("_schedule", "schedule"),
    "tensorboard_trace_handler": ("_tensorboard", "tensorboard_trace_handler"),
}

# What torch.profiler has of torch's own, in a process that has imported torch: `from pillion import ProfilerActivity`.
_OF_TORCH = {"DeviceType", "ExecutionTraceObserver", "ProfilerActivity", "kineto_available", "supported_activities"}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "profiler":  # torch's names; `from pillion import profiler` finds it by itself
        return import_module(f"{__name__}.profiler")
    if name in _OF_TORCH:
        return getattr(import_module(f"{__name__}.profiler"), name)
    try:
        module, attribute = _OWNERS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = getattr(import_module(f"{__name__}.{module}"), attribute)
    globals()[name] = value  # the next look-up is an ordinary one
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
