"""Random work of GPUs, and records that no honest job writes: the right answers, and no crash."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_captures import capture_of, event_names, losses, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from range_tree import Range, threads
from spool_writer import SpoolWriter

from pillion._tables import column
from pillion.export.chrome import write_chrome_trace
from pillion.merge.spool import ACTIVITY_DTYPE, RANGE_DTYPE
from pillion_probes.layout import CONSTANTS


@st.composite
def regions_with_calls(draw: st.DrawFn) -> list[tuple[list[Range], list[int]]]:
    """For each of one or two processes a thread's ranges, and of each range its call: 0 is none, else epoch and number.

    A call in a call shares its number, as those of the runtime and the driver do, or has its own.
    """
    made = []
    for _ in range(draw(st.integers(1, 2))):
        ranges = draw(threads())[0]
        calls: list[int] = []
        free = [epoch << 32 | number for epoch in (1, 2) for number in range(1, 1 + len(ranges))]
        for found in ranges:
            outer = calls[found.parent] if found.parent is not None else 0
            calls.append(draw(st.sampled_from([outer, free.pop(0)])))
        made.append((ranges, calls))
    return made


@settings(max_examples=100, deadline=None)
@given(regions_with_calls(), st.lists(st.tuples(st.integers(0, 1), st.integers(1, 2), st.integers(0, 9)), max_size=12))
def test_launches_and_causes_of_random_work(
    made: list[tuple[list[Range], list[int]]], work: list[tuple[int, int, int]]
) -> None:
    spool = SpoolWriter()
    expected = []
    for region, (ranges, calls) in enumerate(made, start=1):
        spool.region(region, 41 + region)
        for seq, (found, call) in enumerate(zip(ranges, calls), start=1):
            parent = 0 if found.parent is None else found.parent + 1
            fields = {"source": CONSTANTS["PLN_SOURCE_CUDA"], "value": call} if call else {}
            place = (found.tid, found.name, found.start_ns, found.end_ns)
            spool.record(region, *place, seq=seq, parent=parent, depth=found.depth, **fields)
    for start_ns, (region, epoch, number) in enumerate(work, start=1):
        region = 1 + region % len(made)
        spool.activity(region, 3, start_ns, start_ns, number, epoch=epoch)
        ranges, calls = made[region - 1]
        wanted = epoch << 32 | number
        launch = calls.index(wanted) if number and wanted in calls else None  # the first that began is the outer one
        cause = launch
        while cause is not None and calls[cause]:
            cause = ranges[cause].parent
        cause = launch if cause is None else cause
        expected.append([None if row is None else (41 + region, ranges[row].start_ns) for row in (launch, cause)])
    capture = capture_of(spool)
    events, activities = capture.columns["events"], capture.columns["activities"]
    names = [*zip(events["pid"].tolist(), events["start_ns"].tolist()), None]
    found_rows = zip(column("activities", activities, "launch").tolist(), activities["event"].tolist())
    assert [[names[launch], names[cause]] for launch, cause in found_rows] == expected
    assert losses(capture) == {}


def test_what_cannot_be_is_counted(spool: SpoolWriter) -> None:
    spool.activity(1, 3, 0, 20)
    spool.activity(1, 3, 2**63, 2**63 + 1)
    spool.activity(1, 3, 100, 90, name="ends before it starts")
    spool.activity(1, 3, 200, 2**64 - 1, name="never ends")
    for kind in (7, 2**16 - 1, 7):
        spool.activity(1, kind, 10, 20)
    capture = capture_of(spool)
    assert rows(capture, "activities", "name", "start_ns", "end_ns") == [
        ("ends before it starts", 100, 100),
        ("never ends", 200, 200),
    ]
    assert losses(capture) == {"bad_times": 2, "bad_durations": 2, "unknown_activities": 3}


def test_calls_with_the_number_of_another_are_counted(spool: SpoolWriter) -> None:
    spool.call(1, 41, "first", 100, 200, 5, seq=1)
    spool.call(1, 41, "later", 300, 400, 5, seq=2)
    spool.call(1, 43, "of another thread", 110, 120, 5, seq=1)
    spool.activity(1, 3, 250, 260, 5)
    capture = capture_of(spool)
    assert event_names(capture, capture.columns["activities"]["launch"].tolist()) == ["first"]
    assert losses(capture) == {"doubtful_launches": 2}


_NUMBERS = st.sampled_from([0, 1, 2, 5, 7, 2**16 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1])
_KINDS = st.sampled_from([1, 2, 3, 4, 5, 8, 9, 10, 11, 17, 22, 25, 36, 38, 39, 48, 49, 51, 99, 2**16 - 1])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(_KINDS, st.lists(_NUMBERS, min_size=12, max_size=12)), max_size=12),
    st.lists(st.tuples(_NUMBERS, _NUMBERS, _NUMBERS), max_size=5),
)
def test_nothing_that_a_job_says_breaks_its_capture(
    tmp_path_factory: pytest.TempPathFactory,
    activities: list[tuple[int, list[int]]],
    calls: list[tuple[int, int, int]],
) -> None:
    spool = SpoolWriter()
    spool.region(1, 41)
    spool.string(1, '{"uuid": "GPU-a", "numSms": 1}')
    for start, value, parent in calls:
        spool.record(1, 41, "call", start, start, source=CONSTANTS["PLN_SOURCE_CUDA"], value=value)
        spool._records[1][-1]["parent"] = spool._records[1][-1]["seq"] = parent % 2**32
    for kind, numbers in activities:
        record = np.zeros(1, ACTIVITY_DTYPE)
        fields = [name for name in ACTIVITY_DTYPE.names or () if name not in ("kind", "activity")]
        for name, number in zip(fields, numbers):
            record[name] = number % 2 ** (8 * ACTIVITY_DTYPE[name].itemsize)
        record["kind"], record["activity"] = CONSTANTS["PLN_ACTIVITY"], kind
        spool._records.setdefault(1, []).append(record.view(RANGE_DTYPE)[0])
    capture = capture_of(spool)
    table = capture.columns["activities"]
    assert (table["end_ns"] >= table["start_ns"]).all()
    assert (np.diff(table["start_ns"]) >= 0).all()
    capture.key_averages().table()
    write_chrome_trace(capture, tmp_path_factory.getbasetemp() / "any.json")
