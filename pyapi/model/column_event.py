"""A FunctionEvent of columns: it reads an attribute when someone first asks for it.

A million events with all their attributes take gigabytes; nearly always a few of the attributes are looked at.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

from pillion._tables import column
from pillion.model.columns import EventColumns
from pillion.model.event import FunctionEvent, Interval, Kernel, device_type
from pillion.model.event_metadata import event_metadata


class ColumnEvent(FunctionEvent):
    """Event ``place`` of the list that the columns describe."""

    def __init__(self, columns: EventColumns, place: int, siblings: ColumnEvents) -> None:
        self._columns = columns
        self._place = place
        self._siblings = siblings

    def __getattr__(self, name: str) -> Any:
        """Called for what is not set yet."""
        if name not in _READERS and name not in _DETAILS:
            raise AttributeError(f"'FunctionEvent' object has no attribute {name!r}")
        if self._is_memory and name in _OF_MEMORY:
            value = _OF_MEMORY[name](self)
        else:
            value = _READERS[name](self) if name in _READERS else self._detail(name)
        setattr(self, name, value)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy and a pickle are events by themselves: without the list, and without relatives."""
        for name in (*_READERS, *_DETAILS):
            getattr(self, name)
        kept = {name: value for name, value in vars(self).items() if name not in _RELATIVES}
        return _alone, ({**kept, "cpu_children": [], "cpu_parent": None},)

    @property
    def cpu_parent(self) -> FunctionEvent | None:
        """The event that encloses this one; it is looked up again and again, as children that hold it were cycles."""
        if "_parent" in vars(self):
            parent: FunctionEvent | None = self._parent
            return parent
        place = int(self._columns.parent_place[self._place])
        return None if place < 0 else self._siblings.event(place)

    @cpu_parent.setter
    def cpu_parent(self, parent: FunctionEvent | None) -> None:
        self._parent = parent

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        if "cpu_children" in vars(self):
            return super().self_cpu_time_total
        return float(self._columns.self_us[self._place])

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        if "cpu_children" in vars(self) or "kernels" in vars(self):
            return super().device_time_total
        return float(self._columns.device_us[self._place]) if self.use_device and not self.is_async else 0

    @property
    def _row(self) -> int:
        return int(self._columns.rows[self._place])

    @property
    def _is_activity(self) -> bool:
        return self._row >= self._columns.count

    @property
    def _is_memory(self) -> bool:
        """Whether it is an allocation outside all operators, which torch lists as an event of the CPU."""
        return self._is_activity and self._of_activity("kind") == "memory"

    def _detail(self, name: str) -> Any:
        values = None if self._is_memory else self._columns.detail.read(name)
        if values is None:
            return _DETAILS[name]
        columns = self._columns
        value = values[columns.count + columns.listed[self._row - columns.count] if self._is_activity else self._row]
        return event_metadata(value) if name == "event_metadata" else value

    def _of_table(self, name: str, of_activity: Any) -> Any:
        """A value of the event's row of the events table."""
        return of_activity if self._is_activity else column("events", self._columns.events, name)[self._row]

    def _of_activity(self, name: str) -> Any:
        return self._columns.activities[name][self._row - self._columns.count]

    def _device_detail(self, name: str) -> int | None:
        values = self._columns.of_listed(name)
        return None if values is None else int(values[self._row - self._columns.count])


def _alone(values: dict[str, Any]) -> FunctionEvent:
    event = FunctionEvent.__new__(FunctionEvent)
    vars(event).update(values)
    return event


# Kineto's categories of activities, where they are not the kind itself.
ACTIVITY_TYPES = {
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "sync": "cuda_sync",
    "user_annotation": "gpu_user_annotation",
}

# What a copy of an event leaves behind.
_RELATIVES = {"_columns", "_siblings", "_place", "_parent", "cpu_children"}

# What only the process that made the event may know, and what it is elsewhere.
_DETAILS: dict[str, Any] = {
    "concrete_inputs": None,
    "kwinputs": None,
    "_metadata_json": None,
    "event_metadata": None,
    "external_id": None,
    "flow_id": None,
    "flow_type": None,
    "flow_start": None,
    "linked_correlation_id": 0,
    "structured_input_shapes": None,
    "structured_input_strides": None,
    "input_dtypes": None,
    "python_id": -1,
    "python_parent_id": -1,
    "python_module_id": -1,
}


def _trace_name(event: ColumnEvent) -> str | None:
    columns = event._columns
    if event._is_activity:
        return None if event._is_memory else columns.names[int(event._of_activity("name"))]
    return columns.names[int(columns.events["name"][event._row])]


def _time_range(event: ColumnEvent) -> Interval:
    columns, place = event._columns, event._place
    start = int(columns.start_ns[place]) - columns.origin_ns
    return Interval(start / 1e3, (start + int(columns.duration_ns[place])) / 1e3)


def _children(event: ColumnEvent) -> list[FunctionEvent]:
    return [event._siblings.event(place) for place in event._columns.children(event._place)]


def _kernels(event: ColumnEvent) -> list[Kernel]:
    columns = event._columns
    order, begins = columns.kernels
    work, names = columns.activities, columns.names
    made = [
        Kernel(
            names[int(work["name"][row])],
            int(work["device"][row]),
            (int(work["end_ns"][row] - work["start_ns"][row])) / 1e3,
        )
        for row in order[begins[event._place] : begins[event._place + 1]].tolist()
    ]
    if event.is_legacy:
        made.append(Kernel(event.name, event.device_index, float(event._detail("kernel_ns")) / 1e3))
    return made


def _id(event: ColumnEvent) -> int:
    if event._is_activity:
        number = event._device_detail("number")
        return int(event._of_activity("correlation")) if number is None else number
    known = event._columns.detail.number
    if known is not None:
        return int(known[event._row])
    return int(event._of_table("external_id", 0)) or event._row


def _external_id(event: ColumnEvent) -> int:
    of_torch = event._detail("external_id")
    return int(event._of_table("external_id", 0)) if of_torch is None else int(of_torch)


def _resource(event: ColumnEvent) -> int:
    return int(event._of_activity("stream")) if event._is_activity else int(event._columns.events["tid"][event._row])


def _device_index(event: ColumnEvent) -> int:
    if event._is_activity:
        return int(event._of_activity("device"))
    # torch has the process there.
    return int(event._columns.events["pid"][event._row]) if event._columns.detail.thread is not None else 0


def _fwd_thread(event: ColumnEvent) -> int | None:
    return int(event._of_table("fwd_thread", 0)) if "fwd_thread" in event._columns.events else None


def _activity_type(event: ColumnEvent) -> str:
    if not event._is_activity:
        return str(event._columns.category[event._row])
    kind = event._of_activity("kind")
    return ACTIVITY_TYPES.get(kind, str(kind))


def _number(name: str) -> Callable[[ColumnEvent], int]:
    return lambda event: int(getattr(event._columns, name)[event._place])


def _sampled(name: str) -> Callable[[ColumnEvent], int]:
    return lambda event: int(event._columns.sampled[name][event._place]) if event._columns.is_sampled else 0


_READERS: dict[str, Callable[[ColumnEvent], Any]] = {
    "id": _id,
    "name": lambda event: event._columns.names[int(event._columns.shown[event._place])],
    "trace_name": _trace_name,
    "overload_name": lambda event: event._columns.names[int(event._columns.overload[event._place])],
    "thread": _number("thread_of"),
    "fwd_thread": _fwd_thread,
    "time_range": _time_range,
    "input_shapes": lambda event: event._columns.shape_values[int(event._columns.shapes[event._place])],
    "stack": lambda event: list(event._columns.stack_texts[int(event._columns.stack[event._place])]),
    "scope": lambda event: int(event._of_table("scope", 0)),
    "use_device": lambda event: event._columns.use_device,
    "cpu_memory_usage": _number("cpu_memory"),
    "device_memory_usage": _number("device_memory"),
    "is_async": lambda event: bool(event._columns.is_async[event._place]),
    "is_remote": lambda event: False,
    "sequence_nr": lambda event: int(event._of_table("sequence_nr", -1)),
    "node_id": _number("node_id"),
    "device_type": lambda event: device_type(int(event._columns.device_type[event._place])),
    "device_index": _device_index,
    "device_resource_id": _resource,
    "is_legacy": lambda event: bool(event._columns.is_legacy[event._place]),
    "flops": _number("flops"),
    "is_user_annotation": lambda event: bool(event._columns.is_annotation[event._place]),
    "is_python_function": lambda event: event.activity_type == "python_function",
    "activity_type": _activity_type,
    "external_id": _external_id,
    "cpu_children": _children,
    "kernels": _kernels,
    "count": lambda event: 1,
    **{name: _sampled(name) for name in ("samples", "on_cpu_ns", "self_on_cpu_ns", "off_cpu_ns")},
}


# torch makes events of allocations by hand, with little in them.
_OF_MEMORY: dict[str, Callable[[ColumnEvent], Any]] = {
    "fwd_thread": lambda event: event.thread,
    "device_index": lambda event: 0,
    "device_resource_id": lambda event: event.thread,
    "flops": lambda event: None,
    "activity_type": lambda event: None,
}


class ColumnEvents:
    """The events of columns as objects, each made when it is first asked for and the same one as long as it lives.

    This knows its events by weak references, so no event is part of a cycle: nothing of a million events is left for
    the cyclic collector. The list holds them.
    """

    def __init__(self, columns: EventColumns) -> None:
        self.columns = columns
        self._made: dict[int, weakref.ref[ColumnEvent]] = {}

    def __getitem__(self, place: int) -> ColumnEvent:
        return self.event(range(len(self.columns))[place])

    def event(self, place: int) -> ColumnEvent:
        """The event at a place, 0 or greater."""
        known = self._made.get(place)
        event = None if known is None else known()
        if event is None:
            event = ColumnEvent(self.columns, place, self)
            self._made[place] = weakref.ref(event)
        return event

    def all(self) -> list[ColumnEvent]:
        """All events, in the order of the list."""
        enabled = gc.isenabled()
        gc.disable()  # a collection per 700 new objects would walk all the events made so far, again and again
        try:
            if self._made:
                return [self.event(place) for place in range(len(self.columns))]
            columns = self.columns
            events = [ColumnEvent(columns, place, self) for place in range(len(columns))]
            self._made = dict(enumerate(map(weakref.ref, events)))
            return events
        finally:
            if enabled:
                gc.enable()
