"""One result of torch's engine through torch's post-processor and through ours."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.autograd.profiler as theirs
import torch.autograd.profiler_util as their_model

from pillion._tables import SCHEMAS, from_rows
from pillion.model import EventList, event_list
from pillion.torch_engine.engine import is_private_device
from pillion.torch_engine.join import join
from pillion.torch_engine.trace import read_trace

OFFSET_NS = 12_345
ATTRIBUTES = (
    *("id", "name", "trace_name", "overload_name", "thread", "fwd_thread", "input_shapes", "stack", "scope"),
    *("use_device", "cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage", "self_device_memory_usage"),
    *("is_async", "is_remote", "sequence_nr", "node_id", "device_type", "device_index", "device_resource_id", "flops"),
    *("is_legacy", "is_user_annotation", "is_python_function", "count", "key", "cpu_time_total"),
    *("concrete_inputs", "kwinputs", "linked_correlation_id", "structured_input_shapes", "input_dtypes", "python_id"),
)
# Besides, of results made by hand: what real ones have nothing in, and times, whose sums torch's quirks would change.
ALL_ATTRIBUTES = (
    *ATTRIBUTES,
    *("structured_input_strides", "python_parent_id", "python_module_id", "activity_type", "external_id"),
    *("flow_id", "flow_type", "flow_start", "_metadata_json", "event_metadata"),
    *("self_cpu_time_total", "device_time_total", "self_device_time_total", "cpu_time", "device_time"),
)
AVERAGED = (
    *("key", "count", "node_id", "is_async", "is_remote", "use_device", "cpu_time_total", "device_time_total"),
    *("self_cpu_time_total", "self_device_time_total", "input_shapes", "overload_name", "stack", "scope"),
    *("cpu_memory_usage", "device_memory_usage", "self_cpu_memory_usage", "self_device_memory_usage", "device_type"),
    *("is_legacy", "is_user_annotation", "flops", "cpu_time", "device_time"),
)


def through_us(result: Any, prof: Any, use_device: str | None = None) -> EventList:
    """torch's result through our post-processor."""
    tables = {table: from_rows(table, ()) for table in SCHEMAS}
    tables["strings"], tables["stacks"] = from_rows("strings", [(0, "")]), from_rows("stacks", [(0, ())])
    trace = read_trace(
        result,
        use_device=use_device,
        record_shapes=prof.record_shapes,
        with_stack=prof.with_stack,
        with_flops=prof.with_flops,
        is_privateuse1=is_private_device(use_device),
    )
    joined = join(tables, trace, result, pid=os.getpid(), offset_ns=OFFSET_NS, use_device=use_device)
    return event_list(
        joined.tables,
        trace.origin_ns - OFFSET_NS,
        detail=joined.detail,
        profile_memory=prof.profile_memory,
        with_flops=prof.with_flops,
    )


class _Event(theirs.FunctionEvent):  # type: ignore[misc]
    """torch's event, but the self time of one whose children overlap is not negative."""

    @property
    def self_cpu_time_total(self) -> float:
        return max(0, super().self_cpu_time_total)

    @property
    def device_time_total(self) -> float:
        """Of an operator that of its kernels in whole nanoseconds, as ours: torch's differences of floats are not."""
        total: float = super().device_time_total
        return round(total, 9) if self.device_type == torch.autograd.DeviceType.CPU else total


class _Events(theirs.EventList):  # type: ignore[misc]
    """torch's list, but what merges into its parent leaves the parent its kernels, and what could not be allocated is
    nobody's child: torch takes it off the operator's own memory."""

    def _populate_cpu_children(self) -> None:
        theirs.EventList._populate_cpu_children([event for event in self if event.name != "[OutOfMemory]"])

    def _remove_dup_nodes(self) -> None:
        own = {id(event): list(event.kernels) for event in self}
        while True:
            gone = {
                place
                for place, event in enumerate(self)
                if event.cpu_parent is not None
                and event.cpu_parent.name == event.name
                and len(event.cpu_parent.cpu_children) == 1
            }
            if not gone:
                break
            place = max(gone)  # the innermost of a chain
            event = self[place]
            parent = event.cpu_parent
            parent.cpu_children = event.cpu_children
            # The time of a legacy event, its first kernel, is in that of its parent.
            parent.kernels = own[id(parent)] = own[id(parent)] + own[id(event)][event.is_legacy :]
            for child in event.cpu_children:
                child.cpu_parent = parent
            del self[place]


def through_torch(result: Any, use_device: str | None, **wants: bool) -> tuple[Any, Any]:
    """A profile of torch, and what it makes of a result, with three of its faults mended."""
    prof = theirs.profile(**wants)
    prof.use_device = use_device
    original = theirs.FunctionEvent
    theirs.FunctionEvent = their_model.FunctionEvent = _Event
    try:
        parsed = prof._parse_kineto_results(result)
        events = _Events(parsed, use_device=use_device, profile_memory=prof.profile_memory, with_flops=prof.with_flops)
        events._build_tree()
    finally:
        theirs.FunctionEvent = their_model.FunctionEvent = original
    return prof, events


def is_same(name: str, event: Any, other: Any) -> bool:
    """Whether an attribute is the same; times are sums of floats, and not always added in the same order."""
    mine, expected = getattr(event, name), getattr(other, name)
    return abs(mine - expected) < 1e-6 if name.endswith(("_time", "_time_total")) else bool(mine == expected)


def exact_kernels(event: Any) -> list[tuple[str, int, float]]:
    """Ours are in the order of time and in whole nanoseconds; torch's as they came, and differences of floats."""
    return sorted((name, device, round(duration, 9)) for name, device, duration in event.kernels)


def assert_same_events(mine: EventList, expected: Any, attributes: tuple[str, ...] = ATTRIBUTES) -> None:
    assert len(mine) == len(expected)
    for event, other in zip(mine, expected):
        for name in attributes:
            assert is_same(name, event, other), f"{name} of {event.name}"
        assert exact_kernels(event) == exact_kernels(other)
        assert (event.time_range.start, event.time_range.end) == (other.time_range.start, other.time_range.end)
        assert (event.cpu_parent and event.cpu_parent.id) == (other.cpu_parent and other.cpu_parent.id)
        assert [child.id for child in event.cpu_children] == [child.id for child in other.cpu_children]


def private_device() -> str:
    """The name that torch's private backend goes by."""
    return str(torch._C._get_privateuse1_backend_name())
