"""A FunctionEvent of a capture: it reads an attribute from the columns when someone first asks for it.

A million events with all their attributes take gigabytes; nearly always a few of the attributes are looked at.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

from pillion.model.columns import RangeColumns
from pillion.model.event import USER_SCOPE, DeviceType, FunctionEvent, Interval


class ColumnEvent(FunctionEvent):
    """Event ``place`` of the list that the columns describe; ``siblings`` are the events of that list."""

    def __init__(self, columns: RangeColumns, siblings: Sequence[FunctionEvent], place: int) -> None:
        self._columns = columns
        self._siblings = siblings
        self._place = place

    def __getattr__(self, name: str) -> Any:
        """Called for what is not set yet."""
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name not in _READERS:
            raise AttributeError(f"'FunctionEvent' object has no attribute {name!r}")
        value = _READERS[name](self)
        setattr(self, name, value)
        return value

    @property
    def _row(self) -> int:
        return int(self._columns.rows[self._place])

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        return float(self._columns.self_ns[self._row]) / 1e3


# What is the same for every range: at::RecordFunction knows more about an operator than a range has.
_CONSTANTS: dict[str, Any] = {
    "overload_name": "",
    "fwd_thread": None,
    "input_shapes": "",
    "scope": USER_SCOPE,
    "use_device": None,
    "cpu_memory_usage": 0,
    "device_memory_usage": 0,
    "is_remote": False,
    "sequence_nr": -1,
    "node_id": -1,
    "device_type": DeviceType.CPU,
    "device_index": 0,
    "is_legacy": False,
    "flops": 0,
    "concrete_inputs": None,
    "kwinputs": None,
    "is_user_annotation": True,
    "count": 1,
}


def _name(event: ColumnEvent) -> str:
    return event._columns.names[int(event._columns.name[event._row])]


def _trace_name(event: ColumnEvent) -> str:
    return event._columns.names[int(event._columns.table["name"][event._row])]


def _thread(event: ColumnEvent) -> int:
    return int(event._columns.table["tid"][event._row])


def _time_range(event: ColumnEvent) -> Interval:
    columns, row = event._columns, event._row
    start, end = int(columns.table["start_ns"][row]), int(columns.table["end_ns"][row])
    return Interval((start - columns.origin_ns) / 1e3, (end - columns.origin_ns) / 1e3)


def _cpu_parent(event: ColumnEvent) -> FunctionEvent | None:
    place = int(event._columns.parent_place[event._place])
    return event._siblings[place] if place >= 0 else None


def _cpu_children(event: ColumnEvent) -> list[FunctionEvent]:
    return [event._siblings[place] for place in event._columns.children(event._place)]


def _sampled(attribute: str) -> Callable[[ColumnEvent], int]:
    def read(event: ColumnEvent) -> int:
        columns = event._columns
        return int(columns.sampled[attribute][event._row]) if columns.is_sampled else 0

    return read


_READERS: dict[str, Callable[[ColumnEvent], Any]] = {
    "id": lambda event: event._row,
    "name": _name,
    "trace_name": _trace_name,
    "thread": _thread,
    "device_resource_id": _thread,
    "time_range": _time_range,
    "is_async": lambda event: bool(event._columns.is_async[event._row]),
    "cpu_parent": _cpu_parent,
    "cpu_children": _cpu_children,
    "kernels": lambda event: [],
    "stack": lambda event: [],
    **{name: _sampled(name) for name in ("samples", "on_cpu_ns", "self_on_cpu_ns", "off_cpu_ns")},
}


def column_events(columns: RangeColumns) -> list[FunctionEvent]:
    """All events of the columns, in the order of the list."""
    enabled = gc.isenabled()
    gc.disable()  # a collection per 700 new objects would walk all the events made so far, again and again
    try:
        events: list[FunctionEvent] = []
        events.extend(ColumnEvent(columns, events, place) for place in range(len(columns)))
        return events
    finally:
        if enabled:
            gc.enable()
