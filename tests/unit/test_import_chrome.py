"""Chrome's traces by other tools: every phase that an event may have, on traces made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imported_traces import losses, names, op, trace

from pillion._capture import Capture
from pillion_probes.layout import CONSTANTS


def test_pairs_of_begin_and_end_are_ranges(tmp_path: Path) -> None:
    def event(ph: str, name: str, ts: int, tid: int = 1, **more: Any) -> dict[str, Any]:
        return {"ph": ph, "name": name, "pid": 1, "tid": tid, "ts": ts, **more}

    capture = trace(
        tmp_path,
        [
            event("E", "nobody", 1),
            event("B", "outer", 2),
            event("B", "inner", 3),
            event("E", "inner", 4),
            event("B", "again", 5),
            event("E", "again", 6),
            event("E", "outer", 7),
            event("E", "nobody", 8),
            event("B", "open", 9),
            event("i", "mark", 10, tid=2),
            event("b", "request", 3, id="0x1", cat="net"),
            event("e", "request", 9, tid=2, id="0x1", cat="net"),
        ],
    )
    events = capture.columns["events"]
    rows = {name: row for row, name in enumerate(names(capture))}
    times = {name: (int(events["start_ns"][row]), int(events["end_ns"][row])) for name, row in rows.items()}
    assert times == {
        "outer": (2_000, 7_000),
        "inner": (3_000, 4_000),
        "again": (5_000, 6_000),
        "open": (9_000, 10_000),
        "mark": (10_000, 10_000),
        "request": (3_000, 9_000),
    }
    assert events["parent"][rows["inner"]] == events["parent"][rows["again"]] == rows["outer"]
    assert events["parent"][rows["request"]] == -1
    assert events["flags"][rows["request"]] == CONSTANTS["PLN_ASYNC"]
    assert events["end_tid"][rows["request"]] == 2
    assert events["flags"][rows["open"]] == CONSTANTS["PLN_UNFINISHED"]
    assert events["kind"][rows["mark"]] == CONSTANTS["PLN_MARK"]
    assert losses(capture) == {"lonely_ends": 2, "unfinished": 1}


def event(ph: str, ts: float, name: str = "", **more: Any) -> dict[str, Any]:
    return {"ph": ph, "pid": 1, "tid": 1, "ts": ts, **({"name": name} if name else {}), **more}


def spans(capture: Capture) -> list[tuple[str, int, int]]:
    """Name, start and end of each event, in order."""
    events = capture.columns["events"]
    return list(zip(names(capture), events["start_ns"].tolist(), events["end_ns"].tolist()))


def test_ends_that_name_another_range_belong_to_that(tmp_path: Path) -> None:
    crossing = [event("B", 1, "a"), event("B", 2, "b"), event("E", 3, "a"), event("E", 4, "b"), event("E", 5, "b")]
    capture = trace(tmp_path, crossing)
    assert spans(capture) == [("a", 1_000, 3_000), ("b", 2_000, 4_000)]
    assert losses(capture) == {"lonely_ends": 1}
    nameless = [event("B", 1, "a"), event("B", 2, "b"), event("E", 3), event("E", 4, "the end of a")]
    assert spans(trace(tmp_path, nameless)) == [("a", 1_000, 4_000), ("b", 2_000, 3_000)]


def test_asynchronous_ranges_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    def part(ph: str, ts: int, pid: int, id_: str | None = None, **more: Any) -> dict[str, Any]:
        ids = {"id2": {"local": id_}} if id_ else {}
        return event(ph, ts, "load", cat="net", **{"pid": pid, **ids, **more})

    parts = [part("b", 1, 1, "0x1"), part("b", 2, 1, "0x2"), part("b", 3, 2, "0x1"), part("n", 4, 1, "0x1")]
    nameless = part("e", 5, 1, "0x1", args={"status": 7}) | {"name": ""}
    parts += [nameless, part("e", 6, 1, "0x2"), part("e", 7, 2, "0x1")]
    parts += [part("S", 8, 1, id=5), part("S", 9, 1, id=6), part("F", 10, 2, id=5), part("F", 11, 1, id=6)]
    capture = trace(tmp_path, parts)
    ends = [(start // 1_000, end // 1_000) for _, start, end in spans(capture)]
    assert ends == [(1, 5), (2, 6), (4, 4), (8, 10), (9, 11), (3, 7)]  # a thread after the other
    events = capture.columns["events"]
    assert np.flatnonzero(events["kind"] == CONSTANTS["PLN_MARK"]).tolist() == [2]
    assert capture.columns["strings"]["text"][events["attributes"][0]] == '{"status":7}'
    assert losses(capture) == {}


def test_what_the_end_of_a_range_says_is_the_ranges(tmp_path: Path) -> None:
    parts = [event("B", 1, "a", args={"x": 1, "y": 0}), event("E", 2, args={"y": [2]})]
    parts += [event("B", 3, "b"), event("E", 4)]
    capture = trace(tmp_path, [*parts, event("B", 5, "c"), event("E", 6, args={"z": 3}), event("X", 7, "d", dur=1)])
    attributes = capture.columns["events"]["attributes"].tolist()
    said = [capture.columns["strings"]["text"][row] for row in attributes]
    assert [json.loads(text or "{}") for text in said] == [{"x": 1, "y": [2]}, {}, {"z": 3}, {}]
    assert said[0].count('"y"') == 1


def test_a_range_without_a_duration_is_unfinished(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 3}
    capture = trace(tmp_path, [event("X", 1, "a"), event("X", 2, "b", dur=1), event("X", 9, "c", dur=0), kernel])
    assert spans(capture) == [("a", 1_000, 9_000), ("b", 2_000, 3_000), ("c", 9_000, 9_000)]
    assert capture.columns["events"]["flags"].tolist() == [CONSTANTS["PLN_UNFINISHED"], 0, 0]
    assert losses(capture) == {"unfinished": 1, "bad_durations": 1}


def test_samples_of_a_trace_have_their_thread_and_their_stack(tmp_path: Path) -> None:
    nodes = {"1": {"name": "main", "category": "app"}, "2": {"name": "work", "category": "lib.so", "parent": 1}}
    samples = [
        {"cpu": "3", "tid": "8", "ts": "140.5", "name": "cycles", "sf": 2, "weight": 1},
        {"cpu": -1, "pid": 9, "tid": 4, "ts": 110, "sf": "1"},
        {"tid": 8, "ts": 120, "sf": 5},
        {"tid": 8, "ts": 130},
        {"tid": 8, "ts": "soon", "sf": 1},
        None,
    ]
    capture = trace(tmp_path, [op("a", 100, 25), op("b", 130, 20)], samples=samples, stackFrames=nodes)
    table, frames, texts = (capture.columns[name] for name in ("samples", "frames", "strings"))
    assert table["ts_ns"].tolist() == [110_000, 120_000, 130_000, 140_500]
    assert list(zip(table["pid"].tolist(), table["tid"].tolist())) == [(9, 4), (7, 8), (7, 8), (7, 8)]
    assert table["cpu"].tolist() == [0, 0, 0, 3]
    assert [texts["text"][row] for row in table["range_name"].tolist()] == ["", "a", "b", "b"]
    stacks = [capture.columns["stacks"]["frames"][row].tolist() for row in table["stack"].tolist()]
    assert [[(frames["name"][row], frames["module"][row]) for row in stack] for stack in stacks] == [
        [("main", "app")],
        [],
        [],
        [("work", "lib.so"), ("main", "app")],
    ]
    assert (capture.meta["period_ns"], set(table["weight_ns"].tolist())) == (10_250, {10_250})
    assert losses(capture) == {"bad_times": 2, "stacks": 1}
    assert "samples" not in capture.meta["trace"]


def test_numbers_of_processes_may_be_written_as_fractions(tmp_path: Path) -> None:
    capture = trace(tmp_path, b'[{"ph":"X","name":"a","pid":7.0,"tid":120.00,"ts":1,"dur":1}]')
    assert (capture.columns["events"]["pid"].tolist(), capture.columns["events"]["tid"].tolist()) == ([7], [120])


def test_what_is_no_event_does_not_end_the_reading(tmp_path: Path) -> None:
    a, b = json.dumps(event("X", 1, "a", dur=1)), json.dumps(event("X", 2, "b", dur=1))
    capture = trace(tmp_path, f"[{a},null,[1],5,{{}},{b}]".encode())
    assert names(capture) == ["a", "b"]
    assert losses(capture) == {"unread_events": 4}


_moves = st.lists(st.tuples(st.sampled_from("BE"), st.integers(0, 1), st.integers(0, 1)), max_size=30)


@settings(max_examples=200, deadline=None)
@given(_moves)
def test_pairs_are_what_a_stack_gives(tmp_path_factory: pytest.TempPathFactory, moves: list[Any]) -> None:
    now, events, stacks, expected, lonely = 0, [], {0: [], 1: []}, {}, 0
    for place, (phase, tid, step) in enumerate(moves):
        now += step
        events.append({"ph": phase, "name": str(place), "pid": 1, "tid": tid, "ts": now})
        if phase == "B":
            stacks[tid].append(str(place))
        elif stacks[tid]:
            expected[stacks[tid].pop()] = now * 1_000
        else:
            lonely += 1
    unfinished = [name for stack in stacks.values() for name in stack]
    expected |= dict.fromkeys(unfinished, now * 1_000)
    capture = trace(tmp_path_factory.getbasetemp(), events)
    assert dict(zip(names(capture), capture.columns["events"]["end_ns"].tolist())) == expected
    counted = {"lonely_ends": lonely, "unfinished": len(unfinished)}
    assert losses(capture) == {kind: count for kind, count in counted.items() if count}
