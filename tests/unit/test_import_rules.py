"""Rules of importing against direct, slow references: which range is whose parent, which row has which number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imported_traces import names, op, trace

from pillion.importers.distinct import distinct
from pillion.merge.launches import find_first

_interval = st.tuples(st.integers(0, 1), st.integers(0, 25), st.integers(0, 12))


def nested(rows: list[tuple[int, int, int]]) -> list[int]:
    """The parent of each range, −1 for none; rows are (thread, start, end) in the order of the table."""
    parents, stack = [], []
    for row, (thread, start, end) in enumerate(rows):
        while stack:
            open_thread, _, open_end = rows[stack[-1]]
            if open_thread == thread and start < open_end and end <= open_end:
                break
            stack.pop()
        parents.append(stack[-1] if stack else -1)
        stack.append(row)
    return parents


@settings(max_examples=300, deadline=None)
@given(st.lists(_interval, max_size=25))
def test_the_tree_is_what_a_stack_gives(tmp_path_factory: pytest.TempPathFactory, intervals: list[Any]) -> None:
    made = [op(str(place), start, dur, tid=tid) for place, (tid, start, dur) in enumerate(intervals)]
    capture = trace(tmp_path_factory.getbasetemp(), made)
    events = capture.columns["events"]
    keys = [
        (tid, start * 1_000, (start + dur) * 1_000, str(place)) for place, (tid, start, dur) in enumerate(intervals)
    ]
    expected = sorted(keys, key=lambda key: (key[0], key[1], -key[2]))
    rows = list(zip(events["tid"].tolist(), events["start_ns"].tolist(), events["end_ns"].tolist(), names(capture)))
    assert rows == expected
    parents = nested([row[:3] for row in rows])
    assert events["parent"].tolist() == parents
    depths: list[int] = []
    for parent in parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    assert events["depth"].tolist() == depths


@given(st.lists(st.integers(0, 5)), st.lists(st.integers(0, 7)))
def test_the_first_of_equal_numbers_is_found(keys: list[int], wanted: list[int]) -> None:
    found = find_first(np.array(keys, np.int64), np.array(wanted, np.int64))
    assert found.tolist() == [keys.index(number) if number and number in keys else -1 for number in wanted]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 1), st.booleans())))
def test_different_rows_have_different_numbers(rows: list[tuple[int, int, bool]]) -> None:
    columns = [np.array(column) for column in zip(*rows)] or [np.empty(0, np.int64)] * 3
    place, number = distinct(*columns)
    assert [rows[place[code]] for code in number.tolist()] == rows
    assert len(place) == len(set(rows))


def test_a_hundred_thousand_threads_are_numbered(tmp_path: Path) -> None:
    tids = [tid for number in range(50_000) for tid in (number * 2**32, f"thread {number}")]
    capture = trace(tmp_path, [op("a", 1, 1, tid=tid) for tid in tids])
    assert len(np.unique(capture.columns["events"]["tid"])) == len(tids)
