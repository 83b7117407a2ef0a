"""The rules of torch's tree on columns and on objects, against a direct, slow reference."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion._order import time_order
from pillion._tables import SCHEMAS, Labels, Tables, from_rows, text_column
from pillion.model import EventList, FunctionEvent, MemRecordsAcc, StringTable, event_list
from pillion.model.memory import in_any_interval, sums_in_intervals
from pillion.model.nesting import depths, interval_parents, nested_among

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
    high = thread.astype(np.uint64) << np.uint64(62)  # the third is beyond what fits with a sign
    assert interval_parents(start, start + length, high).tolist() == parents.tolist()
    some = start % 3 > 0
    rows = np.flatnonzero(some).tolist()
    among = direct_parents([intervals[row] for row in rows])
    wanted = dict(zip(rows, [rows[above] if above >= 0 else -1 for above in among]))
    found = nested_among(some, start, start + length, thread).tolist()
    assert found == [wanted.get(row, -1) for row in range(len(intervals))]
    depth = depths(parents)
    assert all(depth[row] == (depth[above] + 1 if above >= 0 else 0) for row, above in enumerate(parents.tolist()))


_EXTREMES = [-(2**62), -1, 0, 1, 2**62]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(_EXTREMES), st.sampled_from(_EXTREMES), st.sampled_from([0, 1, 2**32, 2**63]))),
    st.booleans(),
)
def test_the_order_is_by_group_start_and_length(rows: list[tuple[int, int, int]], is_one_group: bool) -> None:
    start, end = (np.array([row[column] for row in rows], np.int64) for column in (0, 1))
    group = None if is_one_group else np.array([row[2] for row in rows], np.uint64)
    keys = [(0 if is_one_group else row[2], row[0], -row[1]) for row in rows]
    expected = sorted(range(len(rows)), key=keys.__getitem__)
    order = time_order(start, end, group)
    assert (list(range(len(rows))) if order is None else order.tolist()) == expected
    assert (order is None) == (expected == list(range(len(rows))))


@given(st.lists(st.integers(-1, 12), max_size=12))
def test_depths_count_ancestors_or_refuse_what_is_no_tree(parents: list[int]) -> None:
    expected = []
    for row in range(len(parents)):
        depth, above = 0, parents[row]
        while 0 <= above < len(parents) and depth <= len(parents):
            depth, above = depth + 1, parents[above]
        expected.append(depth if above < 0 else None)
    if None in expected:
        with pytest.raises(ValueError, match="no tree"):
            depths(np.array(parents, np.int32))
    else:
        assert depths(np.array(parents, np.int32)).tolist() == expected


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
