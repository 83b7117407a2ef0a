"""EventList: a list of events with averages, a table and exports, filled when someone looks into it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import wraps
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar

from pillion._tables import Tables
from pillion.model.average import FunctionEventAvg
from pillion.model.column_event import ColumnEvents
from pillion.model.columns import EventColumns
from pillion.model.event import FunctionEvent
from pillion.model.rows import Detail
from pillion.model.selection import shown_places

Event = FunctionEvent | FunctionEventAvg
_Method = TypeVar("_Method", bound=Callable[..., Any])

_STACK_METRICS = [f"self_{device}_time_total" for device in ("cpu", "cuda", "xpu", "privateuse1")]
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

    The list of a capture starts as columns. Averages and traces come from them as long as the list itself was not
    changed: what is set on single events does not reach them. A list of hand-made events gets its tree from
    ``_build_tree``.
    """

    def __init__(
        self,
        events: Iterable[Event] = (),
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
        columns: EventColumns | None = None,
        is_sampled: bool = False,
        notes: Iterable[str] = (),
    ) -> None:
        super().__init__(events)
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops
        # While nobody changed the list its columns answer; its objects stay the same ones even then.
        self._columns = columns
        self._objects = None if columns is None else ColumnEvents(columns)
        self._is_filled = columns is None
        self._is_sampled = is_sampled
        self._notes = list(notes)
        self._tree_built = columns is not None

    def __copy__(self) -> EventList:
        """Another list of the same events."""
        return _restored(list(self), self._settings())

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle and a deep copy have their own events, with the tree, and no columns."""
        from pillion.model.copies import taken_apart

        return _put_together, (taken_apart(list(self)), self._settings())

    def _settings(self) -> dict[str, Any]:
        names = ("_use_device", "_profile_memory", "_with_flops", "_is_sampled", "_notes", "_tree_built")
        return {name: getattr(self, name) for name in names}

    def _fill(self) -> None:
        if not self._is_filled and self._objects is not None:
            self._is_filled = True
            list.extend(self, self._objects.all())

    def _build_tree(self) -> None:
        """Sets parents and children, merges repeated names and gives backward events their stacks."""
        from pillion.model.object_tree import build_tree

        if self._columns is None:
            list.__setitem__(self, slice(None), build_tree(list(self)))
        self._tree_built = True

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
            return self._columns.self_cpu_us
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
        if not len(self):
            return ""
        from pillion.model.description import describe_columns, describe_objects
        from pillion.model.table import EventTable

        described = describe_objects(self) if self._columns is None else describe_columns(self._columns)
        if described.has_device_time and not described.use_device:
            raise RuntimeError("the events have device times, but no use_device that names the device")
        table = EventTable(
            described,
            name_width=max_name_column_width,
            source_width=max_src_column_width,
            shapes_width=max_shapes_column_width,
            time_unit=time_unit,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
            is_sampled=self._is_sampled,
        )
        key = None if sort_by is None else device_attribute(sort_by)
        shown = self._shown(key, row_limit, top_level_events_only)
        return table.text(shown, header, top_level_events_only, self._notes)

    def _shown(self, key: str | None, limit: int, top_level_only: bool) -> list[Event]:
        """The events that a table shows, in its order."""
        if self._columns is not None and self._objects is not None:
            places = shown_places(self._columns, key, limit, top_level_only)
            if places is not None:
                return [self._objects.event(place) for place in places.tolist()]
        events = self if key is None else sorted(self, key=attrgetter(key), reverse=True)
        shown = (event for event in events if not (top_level_only and event.cpu_parent is not None))
        return list(shown if limit < 0 else islice(shown, limit))

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """One FunctionEventAvg for each key, in the order of first occurrence.

        The key is (name, node, device type, legacy, user annotation), and what is asked for besides: input shapes, the
        innermost entries of the stack, the overload.
        """
        if self._objects is not None and self._columns is not None:
            from pillion.model.grouping import averages

            made = averages(self._objects, group_by_input_shapes, group_by_stack_n, group_by_overload_name)
        else:
            made = self._grouped(group_by_input_shapes, group_by_stack_n, group_by_overload_name)
        return EventList(
            made,
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
                int(event.device_type),
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
        if self._objects is not None and self._columns is not None:
            from pillion.model.grouping import total

            return total(self._objects)
        average = FunctionEventAvg()
        for event in self:
            average.add(event)
            average.key = None
        average.key = "Total"
        return average

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as a bare JSON array, as torch's EventList does.

        Raises:
            OSError: the file cannot be written.
        """
        from pillion.export.event_trace import write_column_trace, write_event_trace

        if self._columns is not None:
            write_column_trace(self._columns, path, self._use_device)
        else:
            write_event_trace(self, path, self._use_device)

    def supported_export_stacks_metrics(self) -> list[str]:
        """What ``export_stacks`` can weigh stacks by."""
        return list(_STACK_METRICS)

    def export_stacks(self, path: str | os.PathLike[str], metric: str) -> None:
        """Write collapsed stacks with the metric in whole microseconds.

        Raises:
            ValueError: there is no such metric.
            OSError: the file cannot be written.
        """
        if metric not in _STACK_METRICS:
            raise ValueError(f"metric should be one of: {_STACK_METRICS}")
        from pillion.export.event_trace import write_event_stacks

        write_event_stacks(self, path, device_attribute(metric))


def _restored(events: list[Any], settings: dict[str, Any]) -> EventList:
    made = EventList(events)
    vars(made).update(settings)
    return made


def _put_together(parts: list[Any], settings: dict[str, Any]) -> EventList:
    from pillion.model.copies import put_together

    return _restored(put_together(parts), settings)


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


def event_list(
    tables: Tables,
    start_ns: int,
    notes: Iterable[str] = (),
    *,
    detail: Detail | None = None,
    profile_memory: bool | None = None,
    with_flops: bool | None = None,
) -> EventList:
    """The events of a capture.

    Args:
        start_ns: the origin of the events' times.
        notes: lines that every table of them ends with.
        detail: what is known of them beyond the tables.
        profile_memory, with_flops: show the columns of memory and flops; None: where there are any.
    """
    columns = EventColumns(tables, start_ns, detail)
    events = tables["events"]
    has_memory = any(name in events and bool(events[name].any()) for name in ("cpu_memory", "device_memory"))
    return EventList(
        columns=columns,
        use_device=columns.use_device,
        profile_memory=has_memory if profile_memory is None else profile_memory,
        with_flops=("flops" in events and bool(events["flops"].any())) if with_flops is None else with_flops,
        is_sampled=columns.is_sampled,
        notes=notes,
    )
