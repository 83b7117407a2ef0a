"""Which rows of a capture are events of a list, in which order, and which encloses which.

Utility ranges are dropped, steps are named ``ProfilerStep*``, a range that is the only child of one of the same name
merges into it, and the order is (start, −end) over all threads and devices. Rows are numbered through: the rows of the
events table, then the rows of the activities that torch would list too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pillion._order import time_order
from pillion._tables import Array, Columns, Labels, Tables, column, length
from pillion.model.nesting import nested_among
from pillion.model.tree import is_async, nested_parents, repeated

UTILITY_RANGES = {
    "[memory]",
    "[OutOfMemory]",
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "aten::is_leaf",
    "aten::output_nr",
    "aten::_version",
}
_STEP = "ProfilerStep#"
# What is told of a device without being work of it: torch lists none of these unless it is asked to.
UNLISTED = ("memory", "sync", "overhead", "event", "unified_memory")


@dataclass(frozen=True)
class Detail:
    """What the process itself knows of its events beyond the tables; it is not stored with a capture.

    Attributes:
        use_device: the device whose times the lists show, or None.
        thread: the thread of each event in torch's numbers.
        number: the id of each event in torch's numbers.
        hidden: mask of the events that torch keeps out of its lists.
        legacy: mask of the events that carry the time of their kernels themselves.
        device: for each activity ``listed`` (whether torch lists it), ``device_type``, ``annotation``, ``thread``,
            ``number``, ``cpu_memory`` and ``device_memory``, as far as they are known.
        read: an attribute's name to its value for each event, then for each activity; None where it is not known.
    """

    use_device: str | None = None
    thread: Array | None = None
    number: Array | None = None
    hidden: Array | None = None
    legacy: Array | None = None
    device: dict[str, Array] = field(default_factory=dict)
    read: Callable[[str], Sequence[Any] | None] = lambda name: None


class EventRows:
    """The events of a list, as rows.

    Attributes:
        events: the events table.
        activities: the activities table, only rows that are listed.
        rows: for each event of the list its row.
        name: the shown name of each row, as an index of ``names``.
        names: the strings of the capture, then the names that were made up here.
        origin_ns: where the events' times begin.
        detail: what is not in the tables.
    """

    def __init__(self, tables: Tables, origin_ns: int, detail: Detail | None = None) -> None:
        self.tables = tables
        self.origin_ns = origin_ns
        self.detail = detail or Detail()
        self.events: Columns = tables["events"]
        self.count = length(self.events)
        listed = self.detail.device.get("listed")
        self.listed = np.flatnonzero(~tables["activities"]["kind"].isin(*UNLISTED) if listed is None else listed)
        self.activities = _taken(tables["activities"], self.listed)
        event_name, self.names, self._dropped = self._shown_names(self.events["name"])
        if self.detail.hidden is not None:
            self._dropped = self._dropped | self.detail.hidden
        self.name = np.concatenate([event_name, self._shown_names(self.activities["name"])[0]])
        self._nest()
        self.rows = self._in_order()

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def category(self) -> Labels:
        """Of each row of the events table."""
        labels: Labels = column("events", self.events, "category")
        return labels

    @cached_property
    def thread(self) -> Array:
        """Of each row of the events table, torch's number where it is known."""
        thread: Array = self.events["tid"] if self.detail.thread is None else self.detail.thread
        return thread

    def of_listed(self, name: str) -> Array | None:
        """What the detail says of each listed activity."""
        values = self.detail.device.get(name)
        return None if values is None else values[self.listed]

    def _shown_names(self, name: Array) -> tuple[Array, list[str], Array]:
        """The shown name of each row, all names, and the mask of utility ranges."""
        texts: list[str] = self.tables["strings"]["text"].tolist()
        shown = np.arange(len(texts) + 1, dtype=np.int32)
        dropped = np.zeros(len(texts), bool)
        for string in np.flatnonzero(np.bincount(name, minlength=len(texts))).tolist():
            if texts[string].startswith(_STEP):
                shown[string] = len(texts)
            dropped[string] = texts[string] in UTILITY_RANGES
        return shown[name], [*texts, "ProfilerStep*"], dropped[name]

    def _nest(self) -> None:
        dropped = self._dropped
        is_exact = "category" not in self.events  # Pillion's own ranges know what encloses them
        nested = nested_parents(self.events, dropped) if is_exact else self._nested_by_time(dropped)
        merged = repeated(self.name[: self.count], nested)
        self.hidden = dropped | merged
        self.absorbed = merged
        self.parent = _above(nested, merged)

    def _nested_by_time(self, dropped: Array) -> Array:
        """The parent of each row by intervals: operators of elsewhere do not say what encloses them."""
        events = self.events
        node = column("events", events, "node_id")
        group = (events["pid"].astype(np.int64) << 32) + self.thread
        if len(node) and node.min() != node.max():
            group = np.unique(np.stack([group, node]), axis=1, return_inverse=True)[1]
        return nested_among(~dropped & ~is_async(events), events["start_ns"], events["end_ns"], group)

    def _in_order(self) -> Array:
        visible = np.flatnonzero(~self.hidden)
        start, end = self.events["start_ns"], self.events["end_ns"]
        if len(self.listed):
            start = np.concatenate([start, self.activities["start_ns"]])
            end = np.concatenate([end, self.activities["end_ns"]])
            visible = np.concatenate([visible, np.arange(self.count, len(start))])
        order = time_order(start[visible], end[visible])
        return visible if order is None else visible[order]


def _taken(columns: Columns, rows: Array) -> Columns:
    """Some rows of a table."""
    return {name: values.take(rows) if isinstance(values, Labels) else values[rows] for name, values in columns.items()}


def _above(parents: Array, merged: Array) -> Array:
    """The parents of rows when some rows are merged into their own parents."""
    if not merged.any():
        return parents
    parents = parents.copy()
    climbing = np.flatnonzero(parents >= 0)
    while len(climbing):
        climbing = climbing[merged[parents[climbing]]]
        parents[climbing] = parents[parents[climbing]]
    return parents
