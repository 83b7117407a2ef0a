"""torch.autograd.profiler, name by name.

>>> from pillion import profiler
>>> with profiler.profile(record_shapes=True) as prof:
...     with profiler.record_function("forward"):
...         model(batch)
>>> print(prof.key_averages(group_by_input_shape=True).table(sort_by="self_cpu_time_total"))

What differs on purpose is listed in docs/differences-to-torch.md.
"""

from pillion._record import record_function
from pillion._torch_engine import run_on_profiler_start as _run_on_profiler_start
from pillion._torch_engine import run_on_profiler_stop as _run_on_profiler_stop
from pillion.model import (
    DeviceType,
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
    MemRecordsAcc,
    StringTable,
)
from pillion.profiler._emit import emit_itt, emit_nvtx
from pillion.profiler._nvprof import EnforceUnique, load_nvprof, parse_nvprof_trace
from pillion.profiler._profile import profile
from pillion.profiler._steps import KinetoStepTracker

__all__ = [
    "DeviceType",
    "EnforceUnique",
    "EventList",
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


def __getattr__(name: str) -> object:
    if name == "_is_profiler_enabled":  # changes: a copy of it here would not
        from pillion._torch_engine import is_profiler_enabled

        return is_profiler_enabled()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
