"""torch.autograd.profiler, name by name.

>>> from pillion import profiler
>>> with profiler.profile(record_shapes=True) as prof:
...     with profiler.record_function("forward"):
...         model(batch)
>>> print(prof.key_averages(group_by_input_shape=True).table(sort_by="self_cpu_time_total"))

What differs on purpose is listed in docs/differences-to-torch.md.
"""

import sys

from pillion._record import record_function
from pillion._step_tracker import KinetoStepTracker
from pillion.model import (
    EventList,
    EventMetadata,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
    MemRecordsAcc,
    StringTable,
)
from pillion.model.event import device_types as _device_types
from pillion.model.memory import MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME
from pillion.model.times import FormattedTimes as FormattedTimesMixin
from pillion.profiler._emit import emit_itt, emit_nvtx
from pillion.profiler._nvprof import EnforceUnique, load_nvprof, parse_nvprof_trace
from pillion.profiler._profile import profile
from pillion.torch_engine.engine import run_on_profiler_start as _run_on_profiler_start
from pillion.torch_engine.engine import run_on_profiler_stop as _run_on_profiler_stop

__all__ = [
    "MEMORY_EVENT_NAME",
    "OUT_OF_MEMORY_EVENT_NAME",
    "DeviceType",
    "EnforceUnique",
    "EventList",
    "EventMetadata",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "KinetoStepTracker",
    "MemRecordsAcc",
    "StringTable",
    "_run_on_profiler_start",
    "_run_on_profiler_stop",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "parse_nvprof_trace",
    "profile",
    "record_function",
]

# What torch's modules have of torch's own: only a process that has imported torch has it here too.
_OF_TORCH = {
    "ExecutionTraceObserver": "torch.profiler",
    "ProfilerActivity": "torch.autograd",
    "ProfilerConfig": "torch.autograd",
    "ProfilerState": "torch.autograd",
    "_ExperimentalConfig": "torch._C._profiler",
    "kineto_available": "torch.autograd",
    "supported_activities": "torch.profiler",
}


def __getattr__(name: str) -> object:
    if name == "DeviceType":  # of the events, which have torch's own members once torch is there
        return _device_types()
    if name == "_is_profiler_enabled":  # changes: a copy of it here would not
        from pillion.torch_engine.engine import is_profiler_enabled

        return is_profiler_enabled()
    if name in _OF_TORCH:
        module = sys.modules.get(_OF_TORCH[name])
        if module is None:
            raise AttributeError(f"{name} is torch's: import torch before pillion.profiler.{name}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
