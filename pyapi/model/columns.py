"""The events of a capture as torch's profiler would list them, still as columns.

What differs from the events table: utility ranges are dropped, steps are named ``ProfilerStep*``, a range that is the
only child of one of the same name merges into it, and the order is (start, -end) over all threads.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from pillion._tables import Array, Columns, Tables, length
from pillion.model.average import FunctionEventAvg
from pillion.model.event import USER_SCOPE
from pillion.model.tree import (
    Attribution,
    attribute,
    is_async,
    nested_parents,
    repeated,
    self_times,
    sums,
    visible_rows,
)

_UTILITY_RANGES = {
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


class RangeColumns:
    """The columns of an EventList. Unless they say otherwise, they belong to the rows of the events table.

    Attributes:
        rows: for each event of the list its row.
        name: the shown name, as an index of ``names``.
        names: the strings of the capture, then the names that were made up here.
        origin_ns: where the events' times begin.
    """

    def __init__(self, tables: Tables, origin_ns: int) -> None:
        self._tables = tables
        self.origin_ns = origin_ns
        self.name, self.names, dropped = self._shown_names()
        nested = nested_parents(self.table, dropped)
        merged = repeated(self.name, nested)
        self._hidden = dropped | merged
        self._parent = nested_parents(self.table, self._hidden) if merged.any() else nested
        visible = np.flatnonzero(~self._hidden)
        # The table is sorted by thread, then (start, -end), so a stable sort by start leaves only ties of threads.
        self.rows = visible[np.argsort(self.table["start_ns"][visible], kind="stable")]

    def __len__(self) -> int:
        return len(self.rows)

    def _shown_names(self) -> tuple[Array, list[str], Array]:
        """The name of each row, all names, and the mask of utility ranges."""
        texts: list[str] = self._tables["strings"]["text"].tolist()
        name = self.table["name"]
        shown = np.arange(len(texts) + 1, dtype=np.int32)
        dropped = np.zeros(len(texts), bool)
        for string in np.flatnonzero(np.bincount(name, minlength=len(texts))).tolist():
            if texts[string].startswith(_STEP):
                shown[string] = len(texts)
            dropped[string] = texts[string] in _UTILITY_RANGES
        return shown[name], [*texts, "ProfilerStep*"], dropped[name]

    @property
    def table(self) -> Columns:
        """The events table."""
        return self._tables["events"]

    @property
    def is_sampled(self) -> bool:
        """Whether samples or waits say anything about these ranges."""
        return length(self._tables["samples"]) + length(self._tables["waits"]) > 0

    @cached_property
    def duration_ns(self) -> Array:
        """Wall time."""
        duration: Array = self.table["end_ns"] - self.table["start_ns"]
        return duration

    @cached_property
    def self_ns(self) -> Array:
        """Wall time without the children's."""
        return self_times(self.table, self._parent)

    @cached_property
    def is_async(self) -> Array:
        """Ended on another thread."""
        return is_async(self.table)

    @cached_property
    def _attribution(self) -> Attribution:
        return attribute(self._tables)

    @cached_property
    def sampled(self) -> dict[str, Array]:
        """What samples and waits say, by the attribute of a FunctionEvent that shows it."""
        of = self._attribution
        visible = visible_rows(self.table, self._hidden)
        return {
            "samples": of.samples.total,
            "on_cpu_ns": of.on_cpu.total,
            "self_on_cpu_ns": sums(visible, of.on_cpu.own, len(visible)),
            "off_cpu_ns": of.off_cpu.total,
        }

    @cached_property
    def parent_place(self) -> Array:
        """For each event of the list the place of its parent in the list, −1 for none."""
        place = np.full(len(self._parent), -1)
        place[self.rows] = np.arange(len(self.rows))
        parent = self._parent[self.rows]
        return np.where(parent >= 0, place[parent], -1)

    @cached_property
    def _children(self) -> tuple[Array, Array]:
        """Places ordered by parent, and where each parent's children begin."""
        order = np.argsort(self.parent_place, kind="stable")
        return order, np.searchsorted(self.parent_place[order], np.arange(len(order) + 1))

    def children(self, place: int) -> list[int]:
        """Places of the children of an event, in the order of the list."""
        order, begins = self._children
        children: list[int] = order[begins[place] : begins[place + 1]].tolist()
        return children

    def self_cpu_us(self) -> float:
        """The sum of self times."""
        return float(self.self_ns[self.rows].sum()) / 1e3

    def top(self, attribute: str, limit: int) -> Array | None:
        """Places of the first ``limit`` events (−1: all) by an attribute, descending; None if it is no column."""
        columns = {"cpu_time_total": "duration_ns", "cpu_time": "duration_ns", "self_cpu_time_total": "self_ns"}
        if attribute not in columns:
            return None
        order = np.argsort(-getattr(self, columns[attribute])[self.rows], kind="stable")
        return order if limit < 0 else order[:limit]

    def averages(self) -> list[FunctionEventAvg]:
        """One average for each name, in the order of first occurrence; times are sums over all calls."""
        name = self.name[self.rows]
        first = np.full(len(self.names), -1)
        first[name[::-1]] = np.arange(len(name))[::-1]  # of equal indices the last assignment stays: the first event
        used = np.flatnonzero(first >= 0)
        used = used[np.argsort(first[used])]

        def by_name(values: Array) -> Array:
            return sums(name, values[self.rows], len(self.names))[used]

        columns: dict[str, list[Any]] = {
            "key": [self.names[index] for index in used.tolist()],
            "count": np.bincount(name, minlength=len(self.names))[used].tolist(),
            "cpu_time_total": (by_name(self.duration_ns) / 1e3).tolist(),
            "self_cpu_time_total": (by_name(self.self_ns) / 1e3).tolist(),
            "is_async": self.is_async[self.rows[first[used]]].tolist(),
        }
        if self.is_sampled:
            columns |= {attribute: by_name(values).tolist() for attribute, values in self.sampled.items()}
        return [_average(dict(zip(columns, values))) for values in zip(*columns.values())]


def _average(values: dict[str, Any]) -> FunctionEventAvg:
    average = FunctionEventAvg()
    average.node_id = -1
    average.scope = USER_SCOPE
    average.input_shapes = average.overload_name = ""
    average.stack = []
    average.is_user_annotation = True
    vars(average).update(values)
    return average
