"""Kineto's traces: what each event becomes, on traces made by hand whose every number is known."""

from __future__ import annotations

import gc
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imported_traces import losses, names, op, trace

import pillion
from pillion._capture import open_capture, save_capture
from pillion._errors import CaptureError
from pillion._tables import column, length
from pillion.analysis.ranges import ranges
from pillion.render.text import render_report

STEP: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "ts": 0, "args": {"name": "python"}},
    {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "ts": 0, "args": {"name": "GPU 0"}},
    {"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "ts": 0, "args": {"name": "main"}},
    op("aten::mm", 101, 50, args={"External id": 5, "Sequence number": 3, "Fwd thread id": 0, "Input Dims": [[2, 3]]}),
    op("cudaLaunchKernel", 110, 5, cat="cuda_runtime", args={"External id": 5, "correlation": 9, "cbid": 211}),
    {
        "ph": "X",
        "cat": "kernel",
        "name": "gemm",
        "pid": 0,
        "tid": 7,
        "ts": 200.5,
        "dur": 10.25,
        "args": {"External id": 5, "correlation": 9, "device": 0, "stream": 7, "context": 1, "grid": [1, 2, 3]},
    },
    op("step", 100, 60, cat="user_annotation", args={"External id": 4}),
    op("MmBackward0", 170, 9, args={"Sequence number": 3, "Fwd thread id": 1}),
    {"ph": "s", "id": 9, "pid": 7, "tid": 8, "ts": 110, "cat": "ac2g", "name": "ac2g"},
    {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "x", "ts": 90, "dur": 200},
]


def test_a_step_becomes_events_and_activities(tmp_path: Path) -> None:
    capture = trace(tmp_path, STEP, baseTimeNanoseconds=1_700_000_000_000_000_000, host_name="box", schemaVersion=1)
    events, activities = capture.columns["events"], capture.columns["activities"]
    assert names(capture) == ["step", "aten::mm", "cudaLaunchKernel", "MmBackward0"]
    assert events["parent"].tolist() == [-1, 0, 1, -1]
    assert events["depth"].tolist() == [0, 1, 2, 0]
    assert events["start_ns"].tolist() == [100_000, 101_000, 110_000, 170_000]
    assert events["end_ns"].tolist() == [160_000, 151_000, 115_000, 179_000]
    assert [events["category"][row] for row in range(4)] == ["user_annotation", "cpu_op", "cuda_runtime", "cpu_op"]
    assert events["scope"].tolist() == [7, 0, 0, 1]
    assert events["sequence_nr"].tolist() == [-1, 3, -1, 3]
    assert events["fwd_thread"].tolist() == [0, 0, 0, 1]
    assert events["correlation"].tolist() == [0, 0, 9, 0]
    assert events["external_id"].tolist() == [4, 5, 5, 0]
    texts = capture.columns["strings"]["text"]
    assert texts[events["shapes"][1]] == "[[2, 3]]"
    assert texts[events["attributes"][2]] == '{"cbid":211}'
    assert names(capture, "activities") == ["gemm"]
    assert activities["kind"][0] == "kernel"
    found = {name: int(activities[name][0]) for name in ("start_ns", "end_ns", "device", "stream", "context")}
    assert found == {"start_ns": 200_500, "end_ns": 210_750, "device": 0, "stream": 7, "context": 1}
    assert (activities["launch"].tolist(), activities["event"].tolist()) == ([2], [1])
    assert texts[activities["attributes"][0]] == '{"grid":[1, 2, 3]}'
    assert capture.columns["processes"]["comm"].tolist() == ["python"]
    assert capture.columns["threads"]["name"].tolist() == ["main"]
    assert losses(capture) == {}
    meta = capture.meta
    assert (meta["start_ns"], meta["end_ns"], meta["realtime_offset_ns"]) == (100_000, 210_750, 1_700_000_000 * 10**9)
    assert (meta["source"], meta["host"], meta["trace"]["schemaVersion"]) == ("kineto", "box", 1)
    assert [span["name"] for span in meta["spans"]] == ["PyTorch Profiler (0)"]


def test_everything_survives_the_disk(tmp_path: Path) -> None:
    capture = trace(tmp_path, STEP)
    save_capture(capture, tmp_path / "copy.pillion")
    again = open_capture(tmp_path / "copy.pillion")
    assert {name: table.to_pylist() for name, table in again.tables.items()} == {
        name: table.to_pylist() for name, table in capture.tables.items()
    }
    assert again.meta == capture.meta


def test_the_dialect_of_2021_means_the_same(tmp_path: Path) -> None:
    old = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel"}
    events = []
    for event in STEP:
        args = {{"External id": "external id"}.get(key, key): value for key, value in event.get("args", {}).items()}
        thread = {"tid": "8"} if event.get("tid") == 8 else {"tid": "stream 7"} if event.get("cat") == "kernel" else {}
        events.append({**event, **thread, "cat": old.get(event.get("cat", ""), event.get("cat", "")), "args": args})
    ours, theirs = trace(tmp_path, STEP), trace(tmp_path, events)
    for table in ("events", "activities", "threads", "processes"):
        assert theirs.tables[table].to_pylist() == ours.tables[table].to_pylist()


def test_a_bare_array_and_gzip_are_read(tmp_path: Path) -> None:
    assert names(trace(tmp_path, json.dumps([op("a", 1, 1)]).encode())) == ["a"]
    assert names(trace(tmp_path, gzip.compress(b" \n" + json.dumps([op("a", 1, 1)]).encode()))) == ["a"]
    assert length(trace(tmp_path, b"[]").columns["events"]) == 0


def test_memory_belongs_to_what_ran(tmp_path: Path) -> None:
    def memory(ts: int, size: int, device: int) -> dict[str, Any]:
        args = {"Bytes": size, "Device Id": 3 if device else -1, "Device Type": device, "Addr": 1}
        return {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", **WHERE, "ts": ts, "args": args}

    capture = trace(
        tmp_path,
        [op("outer", 0, 100), op("inner", 10, 20), memory(15, 64, 0), memory(50, -64, 0), memory(60, 512, 1)],
    )
    events, activities = capture.columns["events"], capture.columns["activities"]
    assert names(capture) == ["outer", "inner"]
    assert events["cpu_memory"].tolist() == [0, 64]
    assert events["device_memory"].tolist() == [512, 0]
    assert [activities["kind"][row] for row in range(3)] == ["memory"] * 3
    assert activities["device"].tolist() == [-1, -1, 3]
    assert activities["bytes"].tolist() == [64, -64, 512]
    assert activities["event"].tolist() == [1, 0, 0]


WHERE = {"pid": 7, "tid": 8}


def test_call_stacks_become_stacks(tmp_path: Path) -> None:
    stack = "model.py(12): forward;<built-in method mm>;train.py(3): main;"
    capture = trace(tmp_path, [op("a", 1, 1, args={"Call stack": stack}), op("b", 3, 1)])
    events, frames = capture.columns["events"], capture.columns["frames"]
    listed = capture.columns["stacks"]["frames"][int(events["stack"][0])].tolist()
    assert [(frames["file"][row], int(frames["line"][row]), frames["name"][row]) for row in listed] == [
        ("model.py", 12, "forward"),
        ("", 0, "<built-in method mm>"),
        ("train.py", 3, "main"),
    ]
    assert events["stack"].tolist() == [1, 0]


def test_shapes_that_are_no_json_are_texts(tmp_path: Path) -> None:
    listed = [[[2, 3]], "[[2, 3]]", "two by three", "", 7]
    capture = trace(tmp_path, [op(str(row), row, 1, args={"Input Dims": it}) for row, it in enumerate(listed)])
    averages = capture.key_averages(group_by_input_shapes=True)
    assert [average.input_shapes for average in averages] == [[[2, 3]], [[2, 3]], "two by three", [], 7]
    assert "two by three" in averages.table()


def test_threads_of_any_number_are_kept_apart(tmp_path: Path) -> None:
    tids: list[Any] = [5, 2**32 + 5, -1, "worker", "5x", 139_786_000_000_000]
    capture = trace(tmp_path, [op(str(tid), 10, 5, tid=tid) for tid in tids])
    events = capture.columns["events"]
    assert len(np.unique(events["tid"])) == len(tids)
    assert (events["parent"] == -1).all()
    assert events["tid"][names(capture).index("5")] == 5
    assert set(capture.columns["threads"]["name"]) == {"worker", "5x"}
    lost = trace(tmp_path, [op("flush", 1, 2, pid=-1, tid=0, cat="overhead")])
    assert (lost.columns["events"]["pid"].tolist(), lost.columns["events"]["category"][0]) == ([0], "overhead")


def test_processes_that_are_named_are_of_the_host(tmp_path: Path) -> None:
    """torch's EventList writes "CPU functions" where others have a number."""
    named = [
        {"ph": "X", "name": pid, "pid": pid, "tid": 7, "ts": 1, "dur": 2, "args": {}} for pid in ("CPU", "Spans", "x")
    ]
    capture = trace(tmp_path, [*named, op("numbered", 1, 2, pid=3)])
    assert sorted(names(capture)) == ["CPU", "numbered", "x"]
    events = capture.columns["events"]
    assert sorted(events["pid"].tolist()) == [0, 0, 3]
    assert len(set(zip(events["pid"].tolist(), events["tid"].tolist()))) == 3
    assert {"CPU", "x"} <= set(capture.columns["threads"]["name"].tolist())
    assert losses(capture) == {}


def test_times_that_cannot_be_are_counted(tmp_path: Path) -> None:
    events = [
        op("good", 5, 1),
        op("negative", 6, -4),
        op("long", 7, 2**63),
        op("never", 2**63, 1),
        op("before", -(2**60), 1),
        {"ph": "X", "name": "timeless", "pid": 7, "tid": 8},
        {"ph": "?", "name": "unknown", "pid": 7, "tid": 8, "ts": 1},
        {"ph": "B", "cat": "kernel", "name": "a kernel in two parts", "pid": 7, "tid": 8, "ts": 1},
    ]
    capture = trace(tmp_path, events)
    assert sorted(names(capture)) == ["good", "long", "negative"]
    assert (capture.columns["events"]["end_ns"] >= capture.columns["events"]["start_ns"]).all()
    assert losses(capture) == {"bad_times": 3, "bad_durations": 1, "unread_events": 2, "unfinished": 1}


def test_sums_beyond_any_time_are_as_great_as_can_be(tmp_path: Path) -> None:
    endless = [op("a", 0, 2**60 / 1e3, tid=tid) for tid in range(20)]
    capture = trace(tmp_path, endless)
    assert int(ranges(capture.columns)["cpu_total_ns"][0]) > 2**62
    assert "a" in render_report(capture, "range")


def test_numbers_that_are_used_twice_link_to_the_first(tmp_path: Path) -> None:
    capture = trace(tmp_path, [*STEP, *[{**event, "ts": event["ts"] + 1_000} for event in STEP[3:6]]])
    activities = capture.columns["activities"]
    assert activities["launch"].tolist() == [2, 2]
    assert activities["event"].tolist() == [1, 1]


def test_work_without_a_stream_is_of_the_track_that_it_is_on(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 3, "tid": 99, "dur": 1}
    places = [{"device": 1}, {"stream": 0, "device": 1}, {"stream": -1}, {}]
    capture = trace(tmp_path, [kernel | {"ts": row, "args": args} for row, args in enumerate(places)])
    activities = capture.columns["activities"]
    where = list(zip(activities["device"].tolist(), activities["stream"].tolist()))
    assert where == [(1, 99), (1, 0), (3, 99), (3, 99)]


def test_a_kernel_without_an_operator_belongs_to_its_launch(tmp_path: Path) -> None:
    launch = op("cudaLaunchKernel", 1, 2, cat="cuda_runtime", args={"correlation": 4})
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 2, "tid": 20, "ts": 9, "dur": 1}
    capture = trace(tmp_path, [launch, {**kernel, "args": {"correlation": 4}}, {**kernel, "args": {"correlation": 5}}])
    activities = capture.columns["activities"]
    assert activities["event"].tolist() == [0, -1]
    assert activities["device"].tolist() == [2, 2]
    assert activities["stream"].tolist() == [20, 20]


def test_a_chain_of_a_hundred_thousand_is_built(tmp_path: Path) -> None:
    count = 100_000
    capture = trace(tmp_path, [op("deep", place, 2 * (count - place)) for place in range(count)])
    assert int(capture.columns["events"]["depth"].max()) == 2**16 - 1
    assert losses(capture) == {"too_deep": 1}


def test_texts_that_nobody_can_print_are_replaced(tmp_path: Path) -> None:
    named = {"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": {"name": "\ud800 \x00"}}
    capture = trace(tmp_path, [op("\udc00 op", 1, 1), named, {**named, "args": []}], host_name="\udfff")
    save_capture(capture, tmp_path / "copy.pillion")
    assert names(open_capture(tmp_path / "copy.pillion")) == ["\ufffd op"]
    assert (capture.meta["host"], capture.columns["threads"]["name"].tolist()) == ("?", ["? \x00"])


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"hello\n", "its content is none of"),
        (b"\xff\xfe\x00\x01", "its content is none of"),
        (b"{", "ends before the first event, at byte"),
        (b'{"traceEvents": [', "ends before the first event, at byte"),
        (b'{"traceEvents": 3}', "has no array traceEvents"),
        (b'{"shared": {"frames": []}, "profiles": []}', "has no array traceEvents"),
        (b'{"traceEvents": [3]}', "is not valid, at byte 17"),
        (b"[1, 2]", "is not valid, at byte 1"),
        (b"\x1f\x8b\x08\x00garbage", "gzip, damaged"),
        (gzip.compress(b""), "it is empty"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_file_and_the_reason(
    tmp_path: Path, content: bytes, cause: str
) -> None:
    path = tmp_path / "profile.json"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match=cause) as caught:
        pillion.import_trace(path)
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(CaptureError, match=f"cannot import {path}"):
            pillion.import_trace(path)


def test_a_job_that_was_killed_leaves_what_is_whole(tmp_path: Path) -> None:
    data = json.dumps({"traceEvents": STEP}).encode()
    capture = trace(tmp_path, data[: data.index(b"MmBackward0")])
    assert names(capture) == ["step", "aten::mm", "cudaLaunchKernel"]
    assert losses(capture) == {"trace_truncated": 1}
    assert "1 trace_truncated" in capture.function_events.table()


def test_optional_columns_are_left_out_where_they_say_nothing(tmp_path: Path) -> None:
    events = trace(tmp_path, [op("a", 1, 1, cat="user_annotation")]).columns["events"]
    assert not events.keys() & {"correlation", "external_id", "shapes", "category", "scope", "stack", "fwd_thread"}
    assert column("events", events, "category")[0] == "user_annotation"


def _collections(path: Path) -> int:
    """How often the cyclic collector runs from the file to the tables, from a fresh start."""
    begun = []
    gc.collect()
    gc.callbacks.append(lambda phase, _: begun.append(phase))
    try:
        events = pillion.import_trace(path).function_events
        for table in (events.key_averages().table(), str(events.total_average()), events.table(row_limit=10)):
            assert table
        return begun.count("start")
    finally:
        gc.callbacks.pop()


def test_more_events_are_no_more_work_for_the_cyclic_collector(tmp_path: Path) -> None:
    row = '{"ph":"X","cat":"cpu_op","name":"op %d","pid":7,"tid":%d,"ts":%d,"dur":%d,"args":{"External id":%d}}'
    path, counts = tmp_path / "trace.json", []
    threshold = gc.get_threshold()
    gc.set_threshold(100, 5, 5)
    try:
        for events in (10, 1_000, 100_000):  # the first loads what is loaded only once
            made = [row % (at % 7, at % 3, at // 2 * 10, 10 - at % 2 * 5, at + 1) for at in range(events)]
            path.write_text(f"[{','.join(made)}]")
            del made
            counts.append(_collections(path))
    finally:
        gc.set_threshold(*threshold)
    assert counts[2] <= counts[1] + 2, counts


@pytest.mark.parametrize("sort_by", ["cpu_memory_usage", "self_device_memory_usage", "flops", "device_time_total"])
def test_tables_are_sorted_by_what_the_trace_does_not_tell_also_where_ranges_merge(
    tmp_path: Path, sort_by: str
) -> None:
    events = trace(tmp_path, [op("a", 1, 9), op("a", 1, 9), op("b", 2, 3)]).function_events
    assert [event.name for event in events] == ["a", "b"]
    assert events.table(sort_by=sort_by, row_limit=-1).count("\n") == events.table(row_limit=-1).count("\n")
