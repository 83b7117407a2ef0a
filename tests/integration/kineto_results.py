"""Results of torch's engine made by hand: objects with the getters of torch's own, for devices that are not here."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st

ORIGIN_NS = 1_000_000
_TYPES = torch.autograd.DeviceType


@dataclass
class KinetoEvent:
    """What the getters of torch's events say."""

    values: dict[str, Any] = field(default_factory=dict)


_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("linked_correlation_id", "scope", "flops", "nbytes", "device_index", "external_id"), 0),
    **dict.fromkeys(("cuda_elapsed_us", "privateuse1_elapsed_us"), -1),
    **dict.fromkeys(("metadata_json", "flow_id", "flow_type", "flow_start", "extra_meta")),
    **{name: [] for name in ("shapes", "stack", "concrete_inputs", "structured_input_shapes", "dtypes")},
    **dict.fromkeys(("is_async", "is_hidden_event", "is_user_annotation", "is_python_function"), False),
    **dict.fromkeys(("sequence_nr", "python_id", "python_parent_id", "python_module_id"), -1),
    "structured_input_strides": [],
    "kwinputs": {},
    "fwd_thread_id": 0,
    "overload_name": "",
}
for _getter in (
    *_DEFAULTS,
    *("name", "start_ns", "end_ns", "start_thread_id", "end_thread_id", "device_resource_id", "correlation_id"),
    *("device_type", "activity_type"),
):
    setattr(KinetoEvent, _getter, lambda self, name=_getter: self.values.get(name, _DEFAULTS.get(name)))


class Result:
    """What ``_disable_profiler`` gives: each call of ``events`` makes a new list."""

    def __init__(self, events: list[KinetoEvent]) -> None:
        self._events = events

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._events))

    def events(self) -> list[KinetoEvent]:
        return list(self._events)

    def trace_start_ns(self) -> int:
        return ORIGIN_NS


_NAMES = ["a", "a", "b", "aten::is_leaf", "ProfilerStep#1", "profiler::_record_function_enter", "x" * 70]
_STACK = ["model.py(3): forward", "train.py(9): <module>", "torch/autograd/__init__.py(1): backward", "loop.py(2): run"]
_WORK = {"kernel": "kernel", "copy": "gpu_memcpy", "set": "gpu_memset", "wait": "cuda_sync"}
_DETAILS = {
    "overload_name": st.sampled_from(["", "Tensor", "out"]),
    "shapes": st.sampled_from([[], [[2, 3], []], [[16, 8]]]),
    "structured_input_shapes": st.sampled_from([[], [[[1], [2]], [3]]]),
    "structured_input_strides": st.sampled_from([[], [[1]]]),
    "dtypes": st.sampled_from([[], ["float", ""]]),
    "concrete_inputs": st.sampled_from([[], [1, None, "x"]]),
    "kwinputs": st.sampled_from([{}, {"stream": 7}]),
    "stack": st.lists(st.sampled_from(_STACK), max_size=3),
    "flops": st.sampled_from([0, 0, 5, 2_000_000]),
    "sequence_nr": st.integers(-1, 3),
    "scope": st.sampled_from([0, 0, 1, 7]),
    "fwd_thread_id": st.integers(0, 2),
    "is_hidden_event": st.sampled_from([False, False, False, True]),
    "is_async": st.sampled_from([False, False, False, True]),
    "python_id": st.integers(-1, 5),
    "python_parent_id": st.integers(-1, 5),
    "python_module_id": st.integers(-1, 5),
    "external_id": st.integers(0, 5),
    "metadata_json": st.sampled_from([None, '"a": 1']),
    "flow_id": st.sampled_from([None, 7]),
    "flow_type": st.sampled_from([None, 1]),
    "flow_start": st.sampled_from([None, True]),
    "cuda_elapsed_us": st.sampled_from([-1, -1, -1, 12]),
    "privateuse1_elapsed_us": st.sampled_from([-1, -1, -1, 13]),
}
_WORK_DETAILS = {
    "extra_meta": st.sampled_from([None, {}, {"stream": "7", "grid": "[1, 2, 3]"}, {"unknown": "x"}]),
    "device_index": st.integers(0, 2),
    "device_resource_id": st.integers(7, 9),
}


@st.composite
def results(draw: st.DrawFn, device: Any = _TYPES.CUDA, are_distinct: bool = False, unit_ns: int = 1) -> Result:
    """Operators of two threads, calls into the runtime, work of devices, their annotations, memory records.

    Args:
        device: where work runs.
        are_distinct: no two begin at the same time, which makes the order of lists one.
        unit_ns: of all times. Of 125 ns sums are exact in floats of us, and so alike whatever the order of adding.
    """
    made: list[dict[str, Any]] = []
    for number in range(1, draw(st.integers(1, 12)) + 1):
        thread, start = draw(st.integers(1, 2)), draw(st.integers(0, 40))
        ended = draw(st.sampled_from([thread, thread, thread, 3 - thread]))
        span = {"start_ns": start, "end_ns": start + draw(st.integers(0, 30))}
        where = {"start_thread_id": thread, "end_thread_id": ended, "device_resource_id": 100 + thread}
        kind = draw(st.sampled_from(["cpu_op", "cpu_op", "python_function", "user_annotation"]))
        of = {"device_type": _TYPES.CPU, "device_index": os.getpid(), "activity_type": kind}
        of |= {"is_user_annotation": kind == "user_annotation", "is_python_function": kind == "python_function"}
        detail = draw(st.fixed_dictionaries({}, optional=_DETAILS))
        name = {"name": draw(st.sampled_from(_NAMES)), "correlation_id": number}
        made.append({**detail, **name, **span, **where, **of})
        kinds = [*_WORK, "kernel", "call", "annotation", "memory", "full", "unlinked"]
        for what in draw(st.lists(st.sampled_from(kinds), max_size=3)):
            begin = start + draw(st.integers(0, 20))
            span = {"start_ns": begin, "end_ns": begin + draw(st.integers(0, 10))}
            made.append(draw(_follower(what, number, 1_000 + len(made), thread, device)) | span)
    for place, event in enumerate(made):
        length = event["end_ns"] - event["start_ns"]
        start = 64 * event["start_ns"] + place % 64 if are_distinct else event["start_ns"]
        event["start_ns"] = ORIGIN_NS + unit_ns * start
        event["end_ns"] = event["start_ns"] + unit_ns * (64 * length if are_distinct else length)
    return Result([KinetoEvent(values) for values in made])


@st.composite
def _follower(draw: st.DrawFn, what: str, number: int, own: int, thread: int, device: Any) -> dict[str, Any]:
    """What an operator, by its number, brought about."""
    where = {"start_thread_id": thread, "end_thread_id": thread, "device_resource_id": 100 + thread}
    event = {"name": what, "linked_correlation_id": number, "correlation_id": own, **where}
    if what == "call":
        other = {"start_thread_id": 77, "end_thread_id": 77, "device_resource_id": 77}
        return event | other | {"device_type": _TYPES.CPU, "device_index": os.getpid(), "activity_type": "cuda_runtime"}
    if what == "annotation":
        shadow = {"is_user_annotation": True, "correlation_id": number, "linked_correlation_id": 0}
        return event | shadow | {"device_type": device, "activity_type": "gpu_user_annotation"}
    if what in ("memory", "full"):
        name = "[memory]" if what == "memory" else "[OutOfMemory]"
        size = {"name": name, "nbytes": draw(st.integers(-99, 99)), "linked_correlation_id": 0, "correlation_id": 0}
        return event | size | {"device_type": draw(st.sampled_from([_TYPES.CPU, device]))}
    detail = draw(st.fixed_dictionaries({}, optional=_WORK_DETAILS))
    if what == "unlinked":
        detail["linked_correlation_id"] = draw(st.sampled_from([0, 999]))
    return event | detail | {"device_type": device, "activity_type": _WORK.get(what, "kernel")}
