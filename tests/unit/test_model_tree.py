"""The rules of torch's tree on columns and on objects, against a direct, slow reference."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion._tables import SCHEMAS, Labels, Tables, from_rows, text_column
from pillion.model import EventList, FunctionEvent, MemRecordsAcc, StringTable, event_list
from pillion.model.memory import in_any_interval, sums_in_intervals
from pillion.model.nesting import depths, interval_parents

_NAMES = ["", "a", "b", "aten::is_leaf", "ProfilerStep#3"]

# thread, name, start, length
_intervals = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 20), st.integers(0, 12)), max_size=40
)


def direct_parents(intervals: list[tuple[int, int, int, int]]) -> list[int]:
    """A stack for each thread: what does not hold the next interval leaves it for good."""
    order = sorted(range(len(intervals)), key=lambda row: (intervals[row][0], intervals[row][2], -intervals[row][3]))
    parents, stack = [-1] * len(intervals), list[int]()
    for row in order:
        thread, _, start, length = intervals[row]
        while stack:
            over, _, begin, lasts = intervals[stack[-1]]
            if over == thread and start < begin + lasts and start + length <= begin + lasts:
                parents[row] = stack[-1]
                break
            stack.pop()
        stack.append(row)
    return parents


def direct_tree(intervals: list[tuple[int, int, int, int]]) -> list[tuple[str, int, int, int, list[int]]]:
    """(name, start, end, self time, starts of the children) of what is left, by (start, −end)."""
    nodes: list[dict[str, Any]] = []
    kept = [row for row in intervals if _NAMES[row[1]] != "aten::is_leaf"]
    for row, parent in zip(kept, direct_parents(kept)):
        name = "ProfilerStep*" if _NAMES[row[1]].startswith("ProfilerStep#") else _NAMES[row[1]]
        nodes.append({"name": name, "start": row[2], "end": row[2] + row[3], "parent": parent, "gone": False})
    merging = True
    while merging:
        merging = False
        for place, node in enumerate(nodes):
            above = node["parent"]
            children = [other for other in nodes if other["parent"] == above and not other["gone"]]
            if not node["gone"] and above >= 0 and nodes[above]["name"] == node["name"] and len(children) == 1:
                node["gone"] = merging = True
                for other in nodes:
                    if other["parent"] == place:
                        other["parent"] = above
    answer = []
    for place, node in enumerate(nodes):
        if not node["gone"]:
            below = [other for other in nodes if other["parent"] == place and not other["gone"]]
            own = node["end"] - node["start"] - sum(other["end"] - other["start"] for other in below)
            starts = sorted(other["start"] for other in below)
            answer.append((node["name"], node["start"], node["end"], max(own, 0), starts))
    return sorted(answer, key=lambda node: (node[1], -node[2]))


def tables_of(intervals: list[tuple[int, int, int, int]]) -> Tables:
    rows = sorted(intervals, key=lambda row: (row[0], row[2], -row[3]))
    thread, name, start, length = (np.array(column, np.int64) for column in (zip(*rows) if rows else [[]] * 4))
    tables = {table: from_rows(table, ()) for table in SCHEMAS}
    zeros = np.zeros(len(rows), np.uint16)
    tables["events"] |= {
        "id": np.arange(len(rows)),
        "pid": np.full(len(rows), 7, np.uint32),
        "tid": thread.astype(np.uint32),
        "end_tid": thread.astype(np.uint32),
        "name": name.astype(np.int32),
        "start_ns": start * 1000,
        "end_ns": (start + length) * 1000,
        "parent": np.full(len(rows), -1),
        "category": Labels(np.zeros(len(rows), np.int32), ("cpu_op",)),
        **dict.fromkeys(("depth", "kind", "flags", "source", "args", "value"), zeros),
    }
    tables["strings"] = {"id": np.arange(len(_NAMES)), "text": text_column(_NAMES)}
    return tables


@settings(max_examples=300, deadline=None)
@given(_intervals)
def test_parents_are_those_of_the_direct_way(intervals: list[tuple[int, int, int, int]]) -> None:
    thread, _, start, length = (np.array(column, np.int64) for column in (zip(*intervals) if intervals else [[]] * 4))
    parents = interval_parents(start, start + length, thread)
    assert parents.tolist() == direct_parents(intervals)
    assert interval_parents(start / 1e3, (start + length) / 1e3, thread).tolist() == direct_parents(intervals)
    depth = depths(parents)
    assert all(depth[row] == (depth[above] + 1 if above >= 0 else 0) for row, above in enumerate(parents.tolist()))


@settings(max_examples=200, deadline=None)
@given(_intervals)
def test_the_tree_of_columns_is_that_of_the_direct_way(intervals: list[tuple[int, int, int, int]]) -> None:
    events = event_list(tables_of(intervals), 0)
    found = [
        (
            event.name,
            round(event.time_range.start),
            round(event.time_range.end),
            round(event.self_cpu_time_total),
            sorted(round(child.time_range.start) for child in event.cpu_children),
        )
        for event in events
    ]
    key = repr
    assert sorted(found, key=key) == sorted(direct_tree(intervals), key=key)
    assert [node[1:3] for node in found] == [node[1:3] for node in direct_tree(intervals)]


@settings(max_examples=200, deadline=None)
@given(_intervals)
def test_the_tree_of_objects_is_that_of_columns(intervals: list[tuple[int, int, int, int]]) -> None:
    columns = event_list(tables_of(intervals), 0)
    made = EventList(
        FunctionEvent(number, "ProfilerStep*" if name == 4 else _NAMES[name], thread, start, start + length)
        for number, (thread, name, start, length) in enumerate(sorted(intervals, key=lambda row: (row[2], -row[3])))
        if _NAMES[name] != "aten::is_leaf"
    )
    made._build_tree()
    found = [
        sorted((event.name, round(event.time_range.start), round(event.self_cpu_time_total)) for event in events)
        for events in (columns, made)
    ]
    assert found[0] == found[1]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5))),
    st.lists(st.tuples(st.integers(0, 15), st.integers(-9, 9))),
)
def test_memory_of_intervals(intervals: list[tuple[int, int]], records: list[tuple[int, int]]) -> None:
    start = np.array([begin for begin, _ in intervals], np.int64)
    end = start + np.array([length for _, length in intervals], np.int64)
    time, size = (np.array(column, np.int64) for column in (zip(*records) if records else [[], []]))
    inside = [[size for moment, size in records if a <= moment <= b] for a, b in zip(start.tolist(), end.tolist())]
    assert sums_in_intervals(start, end, time, size).tolist() == [sum(sizes) for sizes in inside]
    covered = [any(a <= moment <= b for a, b in zip(start, end)) for moment, _ in records]
    assert in_any_interval(start, end, time).tolist() == covered


class _Record:
    def __init__(self, time_ns: int) -> None:
        self._time_ns = time_ns

    def start_ns(self) -> int:
        return self._time_ns


def test_records_in_an_interval_are_closed_at_both_ends() -> None:
    records = [[_Record(time), False] for time in (5, 3, 9, 3)]
    found = list(MemRecordsAcc(records).in_interval(3, 5))
    assert found == [records[1], records[3], records[0]]
    assert list(MemRecordsAcc([]).in_interval(0, 9)) == []


def test_names_are_demangled_but_single_letters() -> None:
    table = StringTable()
    assert table["_ZN2at6nativeEv"] == "at::native()"
    assert (table["t"], table["aten::mm"], len(table)) == ("t", "aten::mm", 3)


def test_old_names_warn() -> None:
    event = FunctionEvent(0, "a", 1, 0, 5)
    for name in ("cuda_time", "cuda_time_total", "self_cuda_time_total", "self_cuda_memory_usage"):
        with pytest.warns(FutureWarning, match=name):
            assert getattr(event, name) == 0


def test_an_event_is_the_same_object_as_long_as_somebody_holds_it() -> None:
    outer, inner = event_list(tables_of([(1, 1, 0, 9), (1, 2, 1, 3)]), 0)
    assert inner.cpu_parent is outer
    assert outer.cpu_children[0] is inner


def test_events_leave_nothing_for_the_cyclic_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        events = event_list(tables_of([(1, 1, 0, 9), (1, 2, 1, 3)] * 50), 0)
        assert sum(len(event.cpu_children) for event in events) > 0
        assert [event.cpu_parent for event in events]
        del events
        assert gc.collect() < 20
    finally:
        gc.enable()


def test_a_filtered_list_is_a_list_of_its_own() -> None:
    events = event_list(tables_of([(1, 1, 0, 9), (1, 2, 1, 3)]), 0)
    chosen = EventList([event for event in events if event.name == "a"])
    chosen.append(FunctionEvent(0, "a", 1, 0, 4))
    (average,) = chosen.key_averages()
    assert (average.count, average.cpu_time_total) == (2, 13)
    assert chosen.table(row_limit=1).count("\n") == 6
