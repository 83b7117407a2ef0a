"""A capture goes out as a Chrome trace and comes back: every column that the format carries is as it was."""

from __future__ import annotations

import contextlib
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from export_captures import device_capture
from gpu_captures import capture_of, stacked
from hypothesis import given, settings
from hypothesis import strategies as st
from spool_writer import SpoolWriter, gpu_spool

from pillion._capture import Capture, open_capture, save_capture
from pillion._errors import CaptureError
from pillion._tables import OPTIONAL, SCHEMAS, check_references, column
from pillion.importers.profile_file import import_trace
from pillion.render.text import render_report
from pillion_probes.layout import CONSTANTS

_TEXTS = {"name", "args", "overload", "shapes", "range_name"}
_PLACES = "events", "samples", "waits", "activities", "processes", "threads"


def again(capture: Capture, folder: Path) -> Capture:
    capture.export_chrome_trace(folder / "trace.json")
    found = import_trace(folder / "trace.json")
    check_references(found.columns)
    return found


def everything(capture: Capture) -> dict[str, Any]:
    """Tables as lists of values, what they refer to resolved; the meta."""
    tables = capture.columns
    found: dict[str, Any] = {
        "meta": {key: it for key, it in capture.meta.items() if key not in ("format", "recovered")}
    }
    for table in _PLACES:
        for name in SCHEMAS[table]:
            found[f"{table}.{name}"] = _values(capture, table, name)
    rows = zip(*(tables["losses"][name].tolist() for name in SCHEMAS["losses"]))
    found["losses"] = [row for row in rows if row[3]]
    return found


def _values(capture: Capture, table: str, name: str) -> list[Any]:
    tables = capture.columns
    rows = tables[table]
    values = column(table, rows, name) if table in OPTIONAL else rows[name]
    if name == "value" and "sequence_nr" in rows:  # of an operator it is the sequence number once more
        values = np.where(rows["source"] == CONSTANTS["PLN_SOURCE_TORCH"], 0, values)
    listed = [values[row] for row in range(len(values))]
    texts = tables["strings"]["text"]
    if name in _TEXTS and table not in ("processes", "threads"):
        return [texts[row] for row in listed]
    if name == "attributes":
        return [json.loads(texts[row]) if texts[row] else None for row in listed]
    if name == "stack":
        keys = ("kind", "name", "file", "line", "module")
        frames = list(zip(*(tables["frames"][key].tolist() for key in keys)))
        return [[frames[frame] for frame in tables["stacks"]["frames"][row].tolist()] for row in listed]
    return [it.item() if hasattr(it, "item") else it for it in listed]


def assert_same(found: Capture, wanted: Capture) -> None:
    ours, theirs = everything(found), everything(wanted)
    assert ours.keys() == theirs.keys()
    assert {key: it for key, it in ours.items() if it != theirs[key]} == {
        key: theirs[key] for key, it in ours.items() if it != theirs[key]
    }


def gpu_capture() -> Capture:
    """Kernels with stacks of their launches, of devices that are described and streams that are named."""
    spool = stacked(gpu_spool())
    spool.notice(1, "clocks differ", "CLOCK", value=7)
    spool.notice(1, "no driver")
    spool.activity(1, 8, 0, 0, device=0, name="NVIDIA H200", attributes='{"uuid": "GPU-a", "numSms": 132}')
    spool.activity(1, 11, 0, 0, device=0, detail=5, stream=7, name="copies")
    return capture_of(spool)


def test_everything_of_a_training_comes_back(training: Capture, tmp_path: Path) -> None:
    found = again(training, tmp_path)
    assert_same(found, training)
    for by in ("range", "function", "thread"):
        assert render_report(found, by) == render_report(training, by)
    assert found.key_averages().table() == training.key_averages().table()


def test_everything_of_a_gpu_comes_back(tmp_path: Path) -> None:
    capture = gpu_capture()
    assert [len(capture.meta[key]) for key in ("devices", "streams", "notices")] == [1, 1, 2]
    assert "stack" in capture.columns["events"]
    assert_same(again(capture, tmp_path), capture)


def test_everything_of_operators_comes_back_and_again(tmp_path: Path) -> None:
    capture = device_capture()
    found = again(capture, tmp_path)
    assert_same(found, capture)
    assert_same(again(found, tmp_path), capture)
    save_capture(found, tmp_path / "saved")
    assert_same(open_capture(tmp_path / "saved"), capture)


_WORDS = ["step", "aten::mm", 'a "quoted" name', "é", "ProfilerStep#1", "wait", "[memory]"]
_NAMES = st.sampled_from(_WORDS)
_TIMES = st.integers(1_000, 1_060)
_U32 = st.sampled_from([0, 1, 41, 43, 2**32 - 1])


# Some have keys that are those of columns.
_ATTRIBUTES = ["", '{"grid": [1, 2, 1]}', '{"a": 1, "value": 7, "args": {"b": []}, "unfinished": true}']
_ATTRIBUTES += ['{"device": "cuda:0", "bytes": 3, "stream": null, "attributes": "x"}']


@st.composite
def captures(draw: st.DrawFn) -> Capture:
    """Ranges, marks, operators and calls in no honest order, with samples, waits and work of devices around them."""
    spool = SpoolWriter()
    spool.object("meta", start_ns=draw(st.sampled_from([0, 997])), realtime_offset_ns=10**18, rate_hz=99, host="box")
    spool.region(1, 41)
    spool.region(2, 42)
    for region, word in product((1, 2), _WORDS):
        spool.string(region, word)
    for seq in range(1, 1 + draw(st.integers(0, 7))):
        start, tid = draw(_TIMES), draw(st.sampled_from([41, 43]))
        fields: dict[str, Any] = {"seq": seq, "parent": draw(st.integers(0, 7)), "depth": draw(st.integers(0, 3))}
        kind = draw(st.sampled_from(["range", "mark", "torch", "call", "nvtx", "elsewhere", "open"]))
        if kind == "torch":
            fields |= {"source": CONSTANTS["PLN_SOURCE_TORCH"], "scope": draw(st.sampled_from([0, 1, 7]))}
            fields |= {"args": draw(st.sampled_from(["", "[[2, 3], []]"])), "value": draw(st.integers(0, 9))}
        elif kind == "call":
            scope = draw(st.sampled_from([0, CONSTANTS["PLN_CUDA_DRIVER"]]))
            fields |= {
                "source": CONSTANTS["PLN_SOURCE_CUDA"],
                "value": 1 << 32 | draw(st.integers(1, 3)),
                "scope": scope,
            }
        elif kind == "nvtx":
            fields |= {"source": CONSTANTS["PLN_SOURCE_NVTX"], "args": "domain\x1fcategory", "value": 2**64 - 1}
        elif kind == "elsewhere":
            fields |= {"end_tid": 43 + 41 - tid, "flags": CONSTANTS["PLN_ASYNC"]}
        elif kind == "open":
            fields |= {"flags": CONSTANTS["PLN_UNFINISHED"], "args": "said {}"}
        elif kind == "mark":
            fields |= {"kind": CONSTANTS["PLN_MARK"], "value": draw(st.sampled_from([0, 5, 2**64 - 1]))}
        end = start if kind == "mark" else start + draw(st.integers(0, 40))
        spool.record(draw(st.sampled_from([1, 2])), tid, draw(_NAMES), start, end, **fields)
    for frame, (kind, name) in enumerate([("python", "main"), ("native", "gemm"), ("kernel", "futex_wait")], start=1):
        spool.object("frame", id=frame, kind=kind, name=name, module="m.so", file="a.py" * (frame == 1), line=3)
    spool.object("stack", id=1, frames=[3, 2, 1])
    spool.object("stack", id=2, frames=[1])
    for _ in range(draw(st.integers(0, 5))):
        kind, start = draw(st.sampled_from(["SAMPLE", "WAIT", "CALL"])), draw(_TIMES)
        numbers = {
            "cpu": draw(st.integers(0, 3)),
            "flags": draw(st.sampled_from([0, 4])),
            "stack": draw(st.integers(0, 3)),
        }
        numbers |= {"range_seq": draw(st.integers(0, 9)), "weight_ns": draw(st.sampled_from([0, 1_000_003, 2**40 + 1]))}
        numbers["range_name"] = spool.string(1, draw(_NAMES))
        if kind == "WAIT":
            numbers |= {"state": draw(st.integers(0, 2)), "waker_pid": draw(_U32), "waker_tid": draw(_U32)}
        end = start + (draw(st.integers(0, 9)) if kind == "WAIT" else 0)
        spool.sample(kind, draw(st.sampled_from([41, 42, 77])), draw(st.sampled_from([41, 43])), start, end, **numbers)
    for _ in range(draw(st.integers(0, 5))):
        start = draw(_TIMES)
        fields = {
            "stream": draw(st.sampled_from([0, 7, 2**32 - 1])),
            "device": draw(st.sampled_from([0, 1, 2**16 - 1])),
        }
        fields |= {
            "value": draw(st.integers(0, 9)),
            "detail": draw(st.integers(0, 3)),
            "context": draw(st.integers(0, 2)),
        }
        fields |= {"attributes": draw(st.sampled_from(_ATTRIBUTES)), "name": draw(_NAMES)}
        activity = draw(st.sampled_from([1, 2, 3, 10, 17, 25, 36, 38, 49, 51]))
        end = start if activity == 49 else start + 5  # memory is allocated in a moment
        spool.activity(draw(st.sampled_from([1, 2])), activity, start, end, draw(st.integers(0, 3)), **fields)
    spool.notice(1, "clocks differ", "CLOCK", value=7)
    spool.activity(1, 8, 0, 0, device=1, name="NVIDIA H200", attributes='{"uuid": "GPU-a", "numSms": 132}')
    spool.activity(1, 11, 0, 0, device=1, detail=5, stream=7, name="copies")
    spool.object("loss", kind="ring_full", pid=41, tid=41, count=draw(st.integers(0, 2)))
    spool.object("thread", pid=41, tid=41, comm="main", on_cpu_ns=5, switches=3)
    spool.object("process", pid=41, start_ns=3, comm="train", cmdline=["python", "a b.py"], uid=0, python="3.11.2")
    return capture_of(spool)


@settings(max_examples=150, deadline=None)
@given(captures())
def test_whatever_is_in_a_capture_comes_back(tmp_path_factory: pytest.TempPathFactory, capture: Capture) -> None:
    found = again(capture, tmp_path_factory.getbasetemp())
    assert_same(found, capture)


@pytest.mark.parametrize(
    "args",
    ['{"value":5,"args":{"args":[1]},"n":0}', '{"attributes":"x","FLOPs":"many"}', '{"n":NaN}', '{"unfinished":1}'],
)
def test_args_of_others_that_have_our_keys_come_back(tmp_path: Path, args: str) -> None:
    element = f'{{"ph":"X","cat":"c","name":"a","pid":1,"tid":2,"ts":1,"dur":2,"args":{args}}}'
    (tmp_path / "other.json").write_text(f"[{element}]")
    capture = import_trace(tmp_path / "other.json")
    found = again(capture, tmp_path)
    wanted = [json.loads(args)]
    assert json.dumps(everything(found)["events.attributes"], sort_keys=True) == json.dumps(wanted, sort_keys=True)
    assert [found.columns["events"][name].tolist() for name in ("value", "flags")] == [[0], [0]]


def exported(capture: Capture, folder: Path) -> dict[str, Any]:
    capture.export_chrome_trace(folder / "whole.json")
    loaded: dict[str, Any] = json.loads((folder / "whole.json").read_bytes())
    return loaded


def imported(trace: dict[str, Any] | bytes, folder: Path) -> Capture:
    path = folder / "changed.json"
    path.write_bytes(trace if isinstance(trace, bytes) else json.dumps(trace).encode())
    capture = import_trace(path)
    check_references(capture.columns)
    return capture


def losses(capture: Capture) -> set[str]:
    return set(capture.columns["losses"]["kind"].tolist())


def test_an_export_that_was_cut_comes_back_as_far_as_it_goes(training: Capture, tmp_path: Path) -> None:
    exported(training, tmp_path)
    whole = (tmp_path / "whole.json").read_bytes()
    wanted = everything(training)
    second = whole.index(b"},\n{", whole.index(b'"traceEvents"'))
    for cut in range(second + 1, whole.rindex(b"]"), 7):
        found = imported(whole[:cut], tmp_path)
        assert "trace_truncated" in losses(found)
        ours = everything(found)
        for key in ("events.name", "events.parent", "waits.stack", "samples.event", "samples.range_name"):
            assert ours[key] == wanted[key][: len(ours[key])]


def test_an_export_whose_rows_somebody_took_out_is_read_as_a_trace_of_others(training: Capture, tmp_path: Path) -> None:
    trace = exported(training, tmp_path)
    trace["traceEvents"] = [it for it in trace["traceEvents"] if it["name"] != "backward"]
    found = imported(trace, tmp_path)
    assert "own_tables" in losses(found)
    assert (found.meta["collector"], len(found.columns["samples"]["ts_ns"])) == ("import", 0)
    names = found.columns["strings"]["text"][found.columns["events"]["name"]].tolist()
    assert [name for name in names if name in ("step", "forward", "load")] == ["step", "forward", "load"]


_VALUES = (
    st.sampled_from([-1, 0, 1, 5, 2**31, 2**63, -(2**63), 1e300, "7", "", None, True])
    | st.lists(st.integers(), max_size=1)
    | st.dictionaries(st.just("name"), st.integers(), max_size=1)
)
_MEMBERS = st.sampled_from(["pillion", "pillionTables", "stackFrames", "losses"])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_an_export_with_any_values_is_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.getbasetemp()
    trace = exported(gpu_capture(), folder)
    for _ in range(data.draw(st.integers(1, 4))):
        event = data.draw(st.sampled_from([it for it in trace["traceEvents"] if it["ph"] in ("X", "i", "b")]))
        inside = data.draw(st.booleans()) and isinstance(event.get("args"), dict)
        where = event["args"] if inside else event
        more = ["pillion.parent", "pillion.depth", "pillion.event", "pillion.launch", "pillion.flags", "sf", "node_id"]
        where[data.draw(st.sampled_from([*where, *more]))] = data.draw(_VALUES)
    member = trace[data.draw(_MEMBERS)]
    if isinstance(member, dict) and member:
        key = data.draw(st.sampled_from(sorted(member)))
        inner = member[key]
        if isinstance(inner, dict) and inner and data.draw(st.booleans()):
            inner[data.draw(st.sampled_from(sorted(inner)))] = data.draw(_VALUES)
        else:
            member[key] = data.draw(_VALUES)
    found = imported(trace, folder)
    found.key_averages().table()
    found.export_chrome_trace(folder / "any.json")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_export_never_breaks_the_import(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    exported(gpu_capture(), folder)
    damaged = bytearray((folder / "whole.json").read_bytes())
    for place, byte in flips:
        damaged[place % len(damaged)] = byte
    with contextlib.suppress(CaptureError):
        imported(bytes(damaged), folder).key_averages()


def test_stack_frames_of_other_tools_become_stacks(tmp_path: Path) -> None:
    common = {"ph": "X", "pid": 7, "tid": 8, "dur": 1}
    events = [
        {**common, "name": "a", "ts": 1, "sf": 3},
        {**common, "name": "b", "ts": 2, "sf": "1"},
        {**common, "name": "c", "ts": 3},
        {**common, "name": "d", "ts": 4, "sf": "missing"},
        {**common, "name": "e", "ts": 5, "sf": "x"},
        {**common, "name": "f", "ts": 6, "args": {"Call stack": "m.py(5): f"}},
    ]
    frames = {
        "1": {"name": "main", "category": "app.so"},
        "3": {"name": "work", "category": "python", "parent": 1, "file": "w.py", "line": 5},
        "x": {"name": "again", "parent": "x"},
    }
    found = imported({"traceEvents": events, "stackFrames": frames}, tmp_path)
    main = ("native", "main", "", 0, "app.so")
    stacks = everything(found)["events.stack"]
    assert stacks[:4] == [[("python", "work", "w.py", 5, ""), main], [main], [], []]
    assert set(stacks[4]) == {("native", "again", "", 0, "")}
    assert stacks[5] == [("python", "f", "m.py", 5, "")]
    assert "stackFrames" not in found.meta["trace"]
    table = found.columns["losses"]
    assert dict(zip(table["kind"].tolist(), table["count"].tolist())) == {"stacks": 2}


def test_stack_frames_may_be_longer_than_any_other_member(tmp_path: Path) -> None:
    frames = {str(number): {"name": f"function {number}" * 9, "category": "python"} for number in range(10_007)}
    event = {"ph": "X", "pid": 7, "tid": 8, "name": "a", "ts": 1, "dur": 1, "sf": "10006"}
    found = imported({"stackFrames": frames, "traceEvents": [event]}, tmp_path)
    assert everything(found)["events.stack"] == [[("python", "function 10006" * 9, "", 0, "")]]
    assert losses(found) == set()
