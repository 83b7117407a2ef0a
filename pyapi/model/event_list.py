"""EventList: a list of events with averages, a table and exports, filled when someone looks into it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property, wraps
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar

from pillion._tables import Tables
from pillion.model.average import FunctionEventAvg
from pillion.model.column_event import column_events
from pillion.model.columns import RangeColumns
from pillion.model.event import FunctionEvent

Event = FunctionEvent | FunctionEventAvg
_Method = TypeVar("_Method", bound=Callable[..., Any])

_STACK_METRICS = {f"self_{device}_time_total" for device in ("cpu", "cuda", "xpu", "privateuse1")}
_READERS = (
    *("__getitem__", "__iter__", "__reversed__", "__contains__", "index", "count", "copy"),
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__add__", "__mul__", "__rmul__"),
)
_WRITERS = (
    *("__setitem__", "__delitem__", "__iadd__", "__imul__"),
    *("append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"),
)


class EventList(list[Any]):
    """FunctionEvents or FunctionEventAvgs.

    The list of a capture starts as columns. Averages come from the columns as long as the list itself was not changed:
    what is set on single events does not reach them.
    """

    def __init__(
        self,
        events: Iterable[Event] = (),
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
        columns: RangeColumns | None = None,
        is_sampled: bool = False,
        notes: Iterable[str] = (),
    ) -> None:
        super().__init__(events)
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops
        self._columns = columns
        self._is_filled = columns is None
        self._is_sampled = is_sampled
        self._notes = list(notes)

    @cached_property
    def _events(self) -> list[FunctionEvent]:
        """The events of the columns as objects."""
        assert self._columns is not None
        return column_events(self._columns)

    def _fill(self) -> None:
        if not self._is_filled and self._columns is not None:
            self._is_filled = True
            list.extend(self, self._events)

    def __len__(self) -> int:
        return list.__len__(self) if self._is_filled or self._columns is None else len(self._columns)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<EventList of {len(self)} events>"

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of self CPU times, us."""
        if self._columns is not None:
            return self._columns.self_cpu_us()
        total: float = sum(event.self_cpu_time_total for event in self)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as torch prints them, "" for none.

        Args:
            sort_by: an attribute, descending; ``cuda``, ``xpu`` and ``privateuse1`` in it mean ``device``.
            row_limit: rows at most, −1 for all.
            time_unit: "s", "ms" or "us" for all times.

        Raises:
            AttributeError: events have no such attribute.
        """
        from pillion.model.table import EventTable

        key = None if sort_by is None else device_attribute(sort_by)
        # A million events are described by the averages of their names: what is wide, what is known, what is zero.
        described = self if self._columns is None else self._columns.averages()
        table = EventTable(
            described,
            self_cpu_us=self.self_cpu_time_total,
            name_width=max_name_column_width,
            source_width=max_src_column_width,
            shapes_width=max_shapes_column_width,
            time_unit=time_unit,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
            is_sampled=self._is_sampled,
        )
        shown = self._shown(key, row_limit, top_level_events_only)
        return table.text(shown, header, top_level_events_only, self._notes)

    def _shown(self, key: str | None, limit: int, top_level_only: bool) -> list[Event]:
        """The events that a table shows, in its order."""
        places = None if self._columns is None or key is None or top_level_only else self._columns.top(key, limit)
        if places is not None:
            return [self._events[place] for place in places.tolist()]
        events = self if key is None else sorted(self, key=attrgetter(key), reverse=True)
        shown = (event for event in events if not (top_level_only and event.cpu_parent is not None))
        return list(shown if limit < 0 else islice(shown, limit))

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """One FunctionEventAvg for each key, in the order of first occurrence."""
        if self._columns is not None:  # ranges have neither shapes nor stacks nor overloads to group by
            averages = self._columns.averages()
        else:
            averages = self._grouped(group_by_input_shapes, group_by_stack_n, group_by_overload_name)
        return EventList(
            averages,
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
            is_sampled=self._is_sampled,
            notes=self._notes,
        )

    def _grouped(self, by_shapes: bool, stack_n: int, by_overload: bool) -> list[FunctionEventAvg]:
        groups: dict[tuple[Any, ...], FunctionEventAvg] = {}
        for event in self:
            key: tuple[Any, ...] = (
                event.key,
                event.node_id,
                event.device_type,
                event.is_legacy,
                event.is_user_annotation,
                event.overload_name if by_overload else "",
                str(event.input_shapes) if by_shapes else "",
                tuple((event.stack or ())[:stack_n]),
            )
            groups.setdefault(key, FunctionEventAvg()).add(event)
        for average in groups.values():
            average.stack = (average.stack or [])[:stack_n]
            average.input_shapes = average.input_shapes if by_shapes else ""
            average.overload_name = average.overload_name if by_overload else ""
        return list(groups.values())

    def total_average(self) -> FunctionEventAvg:
        """The sum over all events, with the key "Total"."""
        total = FunctionEventAvg()
        for event in self.key_averages():
            total.add(event)
            total.key = None
        total.key = "Total"
        return total

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as a bare JSON array, as torch's EventList does.

        Raises:
            OSError: the file cannot be written.
        """
        from pillion.export.event_trace import write_event_trace

        write_event_trace(self, path)

    def export_stacks(self, path: str | os.PathLike[str], metric: str) -> None:
        """Write collapsed stacks with the metric in whole microseconds.

        Raises:
            ValueError: there is no such metric.
            OSError: the file cannot be written.
        """
        if metric not in _STACK_METRICS:
            raise ValueError(f"metric should be one of: {sorted(_STACK_METRICS)}")
        from pillion.export.event_trace import write_event_stacks

        write_event_stacks(self, path, device_attribute(metric))


def device_attribute(name: str) -> str:
    """An attribute's name with the older device names replaced."""
    for device in ("cuda", "xpu", "privateuse1"):
        name = name.replace(device, "device")
    return name


def _filling(method: _Method, changes: bool) -> _Method:
    """The list's method, after the list was filled."""

    @wraps(method)
    def filled(self: EventList, *args: Any, **kwargs: Any) -> Any:
        self._fill()
        if changes:
            self._columns = None
        return method(self, *args, **kwargs)

    return filled  # type: ignore[return-value]


# Every way into a list leads through here, so that a list nobody looks into never makes an object per event.
for _names, _changes in ((_READERS, False), (_WRITERS, True)):
    for _name in _names:
        setattr(EventList, _name, _filling(getattr(list, _name), _changes))


def event_list(tables: Tables, start_ns: int, notes: Iterable[str] = ()) -> EventList:
    """The events of a capture.

    Args:
        start_ns: the origin of the events' times.
        notes: lines that every table of them ends with.
    """
    columns = RangeColumns(tables, start_ns)
    return EventList(columns=columns, is_sampled=columns.is_sampled, notes=notes)
