"""What merging looks up: records by kind, rows of ids, open ranges; each against a slow and direct way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from range_tree import Range, spool_of, threads

from pillion._order import time_order
from pillion.merge import merge
from pillion.merge.ranges import enclosing
from pillion.merge.records import Records, rows_of
from pillion.merge.spool import RANGE_DTYPE, RecordBlock, Spool, parse_spool, read_spool

_KINDS = st.integers(0, 5)


@given(st.lists(st.tuples(st.integers(1, 3), st.lists(_KINDS, max_size=5)), max_size=7), st.integers(1, 7))
def test_records_are_split_by_kind_in_their_order(blocks: list[tuple[int, list[int]]], part: int) -> None:
    spool, expected, seq = Spool(), [], 0
    for region, kinds in blocks:
        records = np.zeros(len(kinds), RANGE_DTYPE)
        records["kind"], records["seq"] = kinds, np.arange(seq, seq + len(kinds))
        expected += [(kind, region, 40 + region, seq + place) for place, kind in enumerate(kinds)]
        seq += len(kinds)
        spool.records.append(RecordBlock(region, 40 + region, records))
    groups = ([4], [1, 2], [5])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pillion.merge.records._PART_RECORDS", part)
        found = Records.of_kinds(spool, *groups)
    for of, group in zip(found, groups):
        columns = (of.records["kind"], of.region, of.pid, of.records["seq"])
        assert list(zip(*(column.tolist() for column in columns))) == [row for row in expected if row[0] in group]


@given(st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 70_000), max_size=9), st.sets(st.integers(0, 2**40)))
def test_ids_that_are_known_have_their_rows_whatever_their_size(ids: list[int], known: set[int]) -> None:
    known |= set(ids[::2]) | {0}
    numbers = np.array(sorted(known), np.uint64)
    rows = np.arange(7, 7 + len(numbers), dtype=np.int32)
    row_of = dict(zip(sorted(known), rows.tolist()))
    assert rows_of(np.array(ids, np.uint32), numbers, rows).tolist() == [row_of.get(it, 0) for it in ids]


def test_many_ids_are_looked_up_as_few_are() -> None:
    known, rows = np.array([0, 3, 90_001], np.uint64), np.array([0, 5, 6], np.int32)
    ids = np.resize(np.array([3, 90_001, 90_000, 2**32 - 1, 0], np.uint32), 30_011)
    assert rows_of(ids, known, rows)[:5].tolist() == [5, 6, 0, 0, 0]


@settings(deadline=None)
@given(threads(), st.lists(st.tuples(st.integers(99, 104), st.integers(990, 1_400)), max_size=9))
def test_the_innermost_open_range_at_a_moment(made: list[list[Range]], moments: list[tuple[int, int]]) -> None:
    tables, _ = merge(parse_spool(spool_of(made).to_bytes()))
    events = tables["events"]
    tid, at_ns = np.array(moments, np.int64).reshape(-1, 2).T
    found = enclosing(events, np.full(len(tid), 41, np.uint32), tid.astype(np.uint32), at_ns)
    for row, (thread, moment) in zip(found.tolist(), moments):
        is_open = [it for ranges in made for it in ranges if it.tid == thread and it.start_ns <= moment < it.end_ns]
        innermost = max(is_open, key=lambda it: it.depth, default=None)
        here = None if row < 0 else (int(events["tid"][row]), int(events["start_ns"][row]))
        assert here == (innermost and (innermost.tid, innermost.start_ns))


_TIMES = st.lists(st.tuples(*[st.integers(0, 3)] * 4), max_size=12)


@given(_TIMES)
def test_equal_intervals_come_by_what_tells_them_apart(rows: list[tuple[int, int, int, int]]) -> None:
    start, end, group, tie = np.array(rows, np.int64).reshape(-1, 4).T
    order = time_order(start, end, group, tie)
    expected = sorted(range(len(rows)), key=lambda row: (rows[row][2], rows[row][0], -rows[row][1], rows[row][3]))
    assert (list(range(len(rows))) if order is None else order.tolist()) == expected


def test_a_spool_whose_pages_were_forgotten_can_be_merged_again(tmp_path: Path) -> None:
    path = tmp_path / "capture.spool"
    path.write_bytes(spool_of([[Range(100, "step", 10 * row, 10 * row + 7, None, 0) for row in range(101)]]).to_bytes())
    spool = read_spool(path)
    assert spool.mapped is not None
    for tables, _ in (merge(spool), merge(spool)):
        assert tables["events"]["start_ns"].tolist() == list(range(0, 1_010, 10))
