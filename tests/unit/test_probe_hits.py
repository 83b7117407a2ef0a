"""Hits of probes become marks and ranges: nothing is lost or made up, and what is inside is inside."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion._native import ffi, lib
from pillion.merge import merge
from pillion.merge.spool import read_spool
from pillion_agent.operands import Argument
from pillion_agent.probe_hits import ProbeHits, Source
from pillion_agent.probe_pairs import roles
from pillion_agent.session import USDT_REGION
from pillion_agent.spool import Spool
from pillion_agent.usdt import Probe

SIGNED = Argument(lib.PLN_ARG_REGISTER, 8, True, base=0)
UNSIGNED = Argument(lib.PLN_ARG_REGISTER, 8, False, base=0)
PROBES = [
    Probe("p", "a_begin", 1, 0, (SIGNED,)),
    Probe("p", "a_end", 2, 0, (UNSIGNED,)),
    Probe("p", "b_begin", 3, 0, ()),
    Probe("p", "b_end", 4, 0, ()),
    Probe("p", "step", 5, 0, (SIGNED, UNSIGNED)),
]
OF = roles("p", [probe.name for probe in PROBES])
A_BEGIN, A_END, B_BEGIN, B_END, STEP = range(5)
PID = 4821


def hit(probe: int, at_ns: int, tid: int = 1, args: tuple[int, ...] = (0, 0), **more: Any) -> bytes:
    sample = {"kind": lib.PLN_EVENT_PROBE, "tid": tid, "pid": PID, "start_ns": at_ns, "range_name": probe}
    sample |= {"range_seq": more.get("seq", 0), "reserved": more.get("depth", 0), "weight_ns": more.get("unread", 0)}
    values = [value % (1 << 64) for value in args]
    return bytes(ffi.buffer(ffi.new("struct pln_probe_hit *", {"sample": sample, "args": values, "open_ns": 0})))


def recorded(data: bytes, region: int = USDT_REGION | PID, end_ns: int = 1_000_000) -> list[dict[str, Any]]:
    """The events that a client makes of hits."""
    with tempfile.TemporaryFile() as file:
        spool = Spool(os.dup(file.fileno()))
        hits = ProbeHits(spool, lambda pid: region)
        hits.define({place: Source(probe, OF[probe.name]) for place, probe in enumerate(PROBES)})
        half = len(data) // 176 // 2 * 176
        for part in (data[:half], data[half:]):
            hits.add(part)
            hits.flush()
        hits.close(end_ns)
        hits.flush()
        spool.close()
        tables, _ = merge(read_spool(file))
    texts, events = tables["strings"]["text"], tables["events"]
    return [
        {name: texts[column[row]] if name in ("name", "args") else int(column[row]) for name, column in events.items()}
        for row in range(len(events["id"]))
    ]


def test_arguments_are_shown_as_what_they_are() -> None:
    events = recorded(
        hit(STEP, 10, args=(-5, 7)) + hit(STEP, 20, args=(2**63 - 1, 2**40)) + hit(STEP, 30, args=(0, 0), unread=2)
    )
    assert [event["args"] for event in events] == [
        "arg1=-5 arg2=7",
        f"arg1={2**63 - 1} arg2=0x10000000000",
        "arg1=0 arg2=?",
    ]
    assert [event["value"] for event in events] == [2**64 - 5, 2**63 - 1, 0]
    assert {(event["kind"], event["source"], event["pid"], event["tid"]) for event in events} == {
        (lib.PLN_MARK, lib.PLN_SOURCE_USDT, PID, 1)
    }


def test_a_hit_of_a_place_that_nobody_defined_is_passed_over() -> None:
    assert recorded(hit(99, 10)) == []


def test_a_hit_in_a_range_of_the_job_is_inside_it() -> None:
    """The job's own range has the number 7 and two others around it; ours are inside all of them."""
    data = b"".join(hit(probe, at, seq=7, depth=3) for probe, at in ((A_BEGIN, 10), (STEP, 20), (A_END, 30)))
    work, step = recorded(data)
    assert (work["name"], work["depth"], work["start_ns"], work["end_ns"]) == ("p:a", 3, 10, 30)
    assert (step["name"], step["depth"], step["parent"]) == ("p:step", 4, work["id"])


def test_an_end_closes_what_was_left_open_in_it() -> None:
    events = recorded(hit(A_BEGIN, 10) + hit(B_BEGIN, 20) + hit(A_END, 30) + hit(B_END, 40))
    assert [(e["name"], e["kind"], e["start_ns"], e["end_ns"], e["flags"]) for e in events] == [
        ("p:a", lib.PLN_RANGE, 10, 30, 0),
        ("p:b", lib.PLN_RANGE, 20, 30, lib.PLN_UNFINISHED),
        ("p:b", lib.PLN_MARK, 40, 40, 0),
    ]


def test_beginnings_without_an_end_do_not_pile_up() -> None:
    events = recorded(b"".join(hit(B_BEGIN, at) for at in range(1, 1010)))
    assert len(events) == 1009
    assert {event["flags"] for event in events} == {lib.PLN_UNFINISHED}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), max_size=40))
def test_every_hit_is_in_exactly_one_event(sequence: list[tuple[int, int]]) -> None:
    data = b"".join(hit(probe, 10 * at, tid) for at, (probe, tid) in enumerate(sequence, 1))
    events = recorded(data)
    marks = [event for event in events if event["kind"] == lib.PLN_MARK]
    ranges = [event for event in events if event["kind"] == lib.PLN_RANGE]
    finished = [event for event in ranges if not event["flags"]]
    assert len(marks) + len(ranges) + len(finished) == len(sequence)
    assert sum(probe in (A_BEGIN, B_BEGIN) for probe, _ in sequence) == len(ranges)
    rows = {event["id"]: event for event in events}
    for event in events:
        if event["parent"] >= 0:
            outer = rows[event["parent"]]
            assert outer["tid"] == event["tid"]
            assert outer["depth"] == event["depth"] - 1
            assert outer["start_ns"] <= event["start_ns"] <= event["end_ns"] <= outer["end_ns"]
    for tid in {event["tid"] for event in ranges}:
        of_thread = [(event["start_ns"], event["end_ns"]) for event in ranges if event["tid"] == tid]
        for start, end in of_thread:
            assert not any(start < other < end < other_end for other, other_end in of_thread), "they are nested"


def test_strings_and_numbers_are_none_that_a_process_has() -> None:
    with tempfile.TemporaryFile() as file:
        spool = Spool(os.dup(file.fileno()))
        hits = ProbeHits(spool, lambda pid: 3)
        hits.define({place: Source(probe, OF[probe.name]) for place, probe in enumerate(PROBES)})
        hits.add(hit(A_BEGIN, 10) + hit(A_END, 20))
        hits.flush()
        spool.close()
        read = read_spool(file)
    assert [offset for offset, _ in read.string_logs[3]] == [8 << 31]
    records = np.concatenate([block.records for block in read.records])
    assert (records["name"] >= 1 << 31).all()
    assert (records["seq"] > 1 << 31).all()
