"""From what a device did to its launch, its range and its stack: exact answers, whatever a job says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from range_tree import Range, threads
from spool_writer import SpoolWriter, gpu_spool

from pillion._capture import FORMAT, Capture, open_capture, save_capture
from pillion._merge import merge
from pillion._spool import ACTIVITY_DTYPE, RANGE_DTYPE, parse_spool
from pillion._tables import SCHEMAS, check_references, column
from pillion.export.chrome import write_chrome_trace
from pillion.export.registry import FORMATS, export
from pillion.importers import import_trace
from pillion_probes.layout import CONSTANTS


def capture_of(writer: SpoolWriter) -> Capture:
    capture = Capture(*merge(parse_spool(writer.to_bytes())))
    check_references(capture.columns)
    return capture


def rows(capture: Capture, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Rows of a table, names as texts, optional columns as their defaults."""
    values = [column(table, capture.columns[table], name) for name in columns]
    texts = capture.columns["strings"]["text"]
    found = zip(*([values_of[row] for row in range(len(capture.columns[table]["start_ns"]))] for values_of in values))
    named = ("name", "args", "attributes")
    return [tuple(texts[value] if name in named else value for name, value in zip(columns, row)) for row in found]


def event_names(capture: Capture, events: Sequence[int]) -> list[str | None]:
    texts = capture.columns["strings"]["text"][capture.columns["events"]["name"]]
    return [texts[event] if event >= 0 else None for event in events]


def losses(capture: Capture) -> dict[str, int]:
    table = capture.columns["losses"]
    counts = zip(table["kind"].tolist(), table["count"].tolist())
    return {kind: count for kind, count in counts if count and kind != "unfinished"}


def test_every_activity_knows_its_launch_and_the_range_around_it() -> None:
    capture = capture_of(gpu_spool())
    events, activities = capture.columns["events"], capture.columns["activities"]
    launch = activities["launch"].tolist()
    found = zip(
        rows(capture, "activities", "kind", "name", "start_ns", "stream"),
        event_names(capture, launch),
        events["start_ns"][launch].tolist(),
        events["pid"][launch].tolist(),
        event_names(capture, activities["event"].tolist()),
    )
    gemm = "void gemm<float>(float*)"
    assert list(found) == [
        (("kernel", gemm, 1_350, 7), "cudaLaunchKernel", 1_200, 41, "aten::mm"),
        (("kernel", "relu", 1_600, 13), "cudaLaunchKernel", 1_400, 41, "aten::mm"),
        (("kernel", gemm, 2_300, 7), "cudaLaunchKernel", 2_100, 42, "eval"),
        (("memcpy", "Memcpy HtoD", 2_400, 7), "cudaMemcpyAsync", 1_600, 41, "aten::mm"),
        *(
            (("kernel", "node", start, 7), "cudaGraphLaunch", 6_000, 41, "cudaGraphLaunch")
            for start in (6_200, 6_400, 6_600)
        ),
        (("kernel", "late", 7_200, 7), "cudaLaunchKernel", 7_000, 41, "cudaLaunchKernel"),
    ]
    assert losses(capture) == {}


def test_calls_have_their_category_and_one_numbering() -> None:
    capture = capture_of(gpu_spool())
    assert rows(capture, "events", "name", "category", "scope", "correlation", "value", "args") == [
        ("step", "user_annotation", 7, 0, 0, ""),
        ("aten::mm", "cpu_op", 0, 0, 7, ""),
        ("cudaLaunchKernel", "cuda_runtime", 0, 5, 0, ""),
        ("cuLaunchKernel", "cuda_driver", 0, 5, 0, ""),
        ("cudaLaunchKernel", "cuda_runtime", 0, 6, 0, ""),
        ("cudaMemcpyAsync", "cuda_runtime", 0, 7, 0, "invalid argument"),
        ("cudaGraphLaunch", "cuda_runtime", 0, 8, 0, ""),
        ("cudaLaunchKernel", "cuda_runtime", 0, (1 << 32) + 5, 0, ""),
        ("eval", "user_annotation", 7, 0, 0, ""),
        ("cudaLaunchKernel", "cuda_runtime", 0, (2 << 32) + 5, 0, ""),
    ]
    activities = capture.columns["activities"]
    assert activities["correlation"].tolist() == [5, 6, (2 << 32) + 5, 7, 8, 8, 8, (1 << 32) + 5]
    assert activities["bytes"].tolist() == [0, 0, 0, 4_096, 0, 0, 0, 0]
    assert rows(capture, "activities", "attributes")[0] == ('{"grid": [2, 1, 1], "block": [32, 1, 1]}',)


def test_a_call_of_which_only_the_driver_tells_is_an_event(spool: SpoolWriter) -> None:
    spool.call(1, 41, "cudaLaunchKernel", 100, 200, 5, seq=1)
    spool.activity(1, 5, 101, 199, 5, name="cudaLaunchKernel")  # told by the thread already
    thread = '{"pid": 41, "tid": 43}'
    spool.activity(1, 5, 300, 400, 6, name="cudaMemsetAsync", detail=2, attributes=thread)
    spool.activity(1, 4, 310, 390, 6, value=307, attributes=thread)
    spool.activity(1, 5, 500, 600, 5, epoch=2, value=211, attributes="no JSON")
    spool.activity(1, 2, 450, 460, 6, value=64)
    capture = capture_of(spool)
    assert rows(capture, "events", "name", "category", "tid", "start_ns", "end_ns", "correlation", "args") == [
        ("cudaLaunchKernel", "cuda_runtime", 41, 100, 200, 5, ""),
        ("cudaMemsetAsync", "cuda_runtime", 43, 300, 400, 6, "error 2"),
        ("driver call 307", "cuda_driver", 43, 310, 390, 6, ""),
        ("runtime call 211", "cuda_runtime", 9_999, 500, 600, (1 << 32) + 5, ""),
    ]
    assert rows(capture, "activities", "kind", "name", "bytes", "launch") == [("memset", "Memset", 64, 1)]


@pytest.mark.parametrize(
    ("activity", "fields", "expected"),
    [
        (3, {"name": "k"}, ("kernel", "k", 0)),
        (3, {}, ("kernel", "kernel", 0)),
        (1, {"detail": 8, "value": 13}, ("memcpy", "Memcpy DtoD", 13)),
        (1, {"detail": 77, "value": 13}, ("memcpy", "Memcpy kind 77", 13)),
        (1, {"name": "Memcpy HtoD (Pinned -> Device)"}, ("memcpy", "Memcpy HtoD (Pinned -> Device)", 0)),
        (2, {"value": 17}, ("memset", "Memset", 17)),
        (
            1,
            {"detail": 1, "attributes": '{"src kind":"pinned","dst kind":"device"}'},
            ("memcpy", "Memcpy HtoD (Pinned -> Device)", 0),
        ),
        (2, {"attributes": '{"value":0,"memory kind":"device static"}'}, ("memset", "Memset (Device Static)", 0)),
        (2, {"attributes": "[1]"}, ("memset", "Memset", 0)),
        (22, {"value": 19}, ("memcpy", "Memcpy PtoP", 19)),
        (38, {"detail": 3, "value": 4}, ("sync", "Stream Sync", 0)),
        (17, {"detail": 6 << 16}, ("overhead", "Command Buffer Full", 0)),
        (36, {}, ("event", "CUDA event", 0)),
        (49, {"detail": 1, "value": 23}, ("memory", "[memory]", 23)),
        (49, {"detail": 2, "value": 23}, ("memory", "[memory]", -23)),
        (25, {"detail": 2, "value": 29}, ("unified_memory", "Unified memory DtoH", 29)),
        (25, {"detail": 4, "value": 29}, ("unified_memory", "Page faults of the GPU", 0)),
        (51, {}, ("graph", "CUDA graph", 0)),
    ],
)
def test_kinds_of_work(spool: SpoolWriter, activity: int, fields: dict[str, Any], expected: tuple[Any, ...]) -> None:
    spool.activity(1, activity, 10, 20, **fields)
    capture = capture_of(spool)
    assert rows(capture, "activities", "kind", "name", "bytes") == [expected]
    assert losses(capture) == {}


def test_what_has_no_number_takes_none_away(spool: SpoolWriter) -> None:
    spool.activity(1, 8, 0, 0, device=0, name="H200", epoch=0)
    spool.call(1, 41, "cudaLaunchKernel", 100, 200, 5, seq=1)
    spool.activity(1, 3, 250, 260, 5)
    capture = capture_of(spool)
    assert rows(capture, "activities", "correlation", "launch") == [(5, 0)]


def test_work_without_a_device_has_that_of_its_context(spool: SpoolWriter) -> None:
    none = {"device": 2**16 - 1, "stream": 2**32 - 1}
    spool.activity(1, 9, 0, 0, context=3, device=1)
    spool.activity(1, 38, 10, 20, context=3, **none)
    spool.activity(1, 38, 30, 40, context=4, **none)
    assert rows(capture_of(spool), "activities", "device", "stream") == [(1, -1), (-1, -1)]


def test_a_record_of_an_event_without_a_time_is_where_it_was_asked_for(spool: SpoolWriter) -> None:
    spool.call(1, 41, "cudaEventRecord", 100, 200, 5, seq=1)
    spool.activity(1, 36, 0, 0, 5)
    spool.activity(1, 36, 0, 0, 6)  # nobody knows where
    capture = capture_of(spool)
    assert rows(capture, "activities", "kind", "start_ns", "end_ns") == [("event", 100, 100)]
    assert losses(capture) == {"bad_times": 1}


def test_a_call_has_the_number_that_another_library_gave_it(spool: SpoolWriter) -> None:
    spool.call(1, 41, "cudaLaunchKernel", 100, 200, 5, seq=1)
    spool.call(1, 41, "cudaLaunchKernel", 300, 400, 6, seq=2)
    spool.activity(1, 39, 0, 0, 6, value=31)
    spool.activity(1, 39, 0, 0, 77, value=37)  # of a call that nobody told of
    capture = capture_of(spool)
    assert rows(capture, "events", "external_id") == [(0,), (31,)]
    assert len(capture.columns["activities"]["start_ns"]) == 0


def test_allocations_are_moments_and_no_memory_of_tensors(spool: SpoolWriter) -> None:
    """torch counts what tensors take, the driver what a caching allocator asks it for: one is not the other."""
    spool.call(1, 41, "cudaMalloc", 200, 300, 5, seq=1)
    spool.activity(1, 49, 250, 0, 5, detail=1, value=103)
    capture = capture_of(spool)
    assert rows(capture, "activities", "kind", "start_ns", "end_ns", "bytes", "launch") == [
        ("memory", 250, 250, 103, 0)
    ]
    assert "Mem" not in capture.key_averages().table()
    assert losses(capture) == {}


# ---- events, exports ----


def test_events_have_the_kernels_that_they_launched() -> None:
    events = capture_of(gpu_spool()).function_events
    found = {
        (event.name, event.time_range.start): ([(k.name, k.device, k.duration) for k in event.kernels], event)
        for event in events
        if event.device_type.name == "CPU" and event.device_time_total
    }
    gemm = "void gemm<float>(float*)"
    assert {key: (kernels, event.device_time_total) for key, (kernels, event) in found.items()} == {
        ("step", 0.0): ([], 1.3),
        ("aten::mm", 0.1): ([(gemm, 0, 0.5), ("relu", 0, 0.7), ("Memcpy HtoD", 0, 0.1)], 1.3),
        ("eval", 1.0): ([(gemm, 0, 0.017)], 0.017),
        ("cudaGraphLaunch", 5.0): ([("node", 0, 0.11)] * 3, 0.33),
        ("cudaLaunchKernel", 6.0): ([("late", 0, 0.013)], 0.013),
    }
    averages = {average.key: average for average in events.key_averages()}
    assert (averages[gemm].count, round(averages[gemm].self_device_time_total, 6)) == (2, 0.517)
    assert [averages["aten::mm"].self_device_time_total, averages["step"].self_device_time_total] == [1.3, 0]


def test_the_table_has_the_times_of_the_device() -> None:
    lines = capture_of(gpu_spool()).key_averages().table(sort_by="self_cuda_time_total").splitlines()
    heads = [head.strip() for head in lines[1].split("  ") if head.strip()]
    assert heads[6:10] == ["Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"]
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[3:6]]
    assert [[row[0], *row[6:]] for row in cells] == [
        ["aten::mm", "1.300us", "78.31%", "1.300us", "1.300us", "1"],
        ["relu", "0.700us", "42.17%", "0.700us", "0.700us", "1"],
        ["void gemm<float>(float*)", "0.517us", "31.14%", "0.517us", "0.258us", "2"],
    ]
    assert "Self CUDA time total: 1.660us" in lines


def test_what_is_told_of_a_device_without_being_work_has_no_device_time(spool: SpoolWriter) -> None:
    spool.call(1, 41, "cudaDeviceSynchronize", 100, 900, 5, seq=1)
    spool.activity(1, 38, 110, 890, 5, detail=4)
    spool.activity(1, 17, 120, 130, detail=1)
    spool.activity(1, 49, 140, 140, detail=1, value=8)
    (event,) = capture_of(spool).function_events
    assert (event.name, event.device_time_total, event.kernels) == ("cudaDeviceSynchronize", 0, [])


def flows(path: Path) -> list[tuple[Any, ...]]:
    events = json.loads(path.read_text())["traceEvents"]
    keys = ("ph", "id", "pid", "tid", "ts", "bp")
    return [tuple(event.get(key) for key in keys) for event in events if event.get("cat") == "ac2g"]


def test_every_launch_has_a_flow_of_its_own_to_all_that_it_started(tmp_path: Path) -> None:
    capture_of(gpu_spool()).export_chrome_trace(tmp_path / "trace.json")
    second, third = (1 << 32) + 5, (2 << 32) + 5
    assert flows(tmp_path / "trace.json") == [
        ("s", 5, 41, 41, 0.2, None),
        ("s", 6, 41, 41, 0.4, None),
        ("s", 7, 41, 41, 0.6, None),
        ("s", 8, 41, 41, 5.0, None),
        ("s", second, 41, 41, 6.0, None),
        ("s", third, 42, 42, 1.1, None),
        ("f", 5, 0, 7, 0.35, "e"),
        ("f", 6, 0, 13, 0.6, "e"),
        ("f", third, 0, 7, 1.3, "e"),
        ("f", 7, 0, 7, 1.4, "e"),
        *(("f", 8, 0, 7, start, "e") for start in (5.2, 5.4, 5.6)),
        ("f", second, 0, 7, 6.2, "e"),
    ]


def test_a_trace_says_of_calls_and_operators_what_kineto_says(tmp_path: Path) -> None:
    capture_of(gpu_spool()).export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    found = {(event["cat"], event["name"]): event["args"] for event in events if event["ph"] == "X"}
    assert found["cpu_op", "aten::mm"] == {"Sequence number": 7, "Fwd thread id": 0}
    assert found["cuda_driver", "cuLaunchKernel"] == {"correlation": 5}
    assert found["kernel", "relu"] == {"device": 0, "context": 1, "stream": 13, "correlation": 6}
    on_stream = {"device": 0, "context": 1, "stream": 7, "correlation": 7}
    assert found["gpu_memcpy", "Memcpy HtoD"] == {**on_stream, "bytes": 4_096}


def test_a_trace_of_several_processes_comes_back_as_it_was(tmp_path: Path) -> None:
    capture = capture_of(gpu_spool())
    capture.export_chrome_trace(tmp_path / "trace.json")
    again = import_trace(tmp_path / "trace.json")
    for side in ("launch", "event"):
        found = [event_names(of, of.columns["activities"][side].tolist()) for of in (capture, again)]
        assert found[0] == found[1]
    assert summary(again) == summary(capture)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_takes_what_gpus_did(format: str, tmp_path: Path) -> None:
    export(capture_of(stacked(gpu_spool())), tmp_path / "out", format)
    assert (tmp_path / "out").exists()


def test_a_capture_comes_back_from_disk_as_it_was(tmp_path: Path) -> None:
    capture = capture_of(stacked(gpu_spool()))
    capture.meta["format"] = FORMAT
    save_capture(capture, tmp_path / "copy")
    again = open_capture(tmp_path / "copy")
    assert summary(again) == summary(capture)
    assert again.meta == capture.meta
    for name, columns in capture.columns.items():
        assert list(again.columns[name]) == [column for column in SCHEMAS[name] if column in columns]


def kineto_trace() -> dict[str, Any]:
    """What Kineto writes of an operator that launches a kernel and a graph of two."""
    host = {"ph": "X", "pid": 41, "tid": 41}
    device = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7}
    on_stream = {"device": 0, "context": 1, "stream": 7}
    events = [
        {**host, "cat": "user_annotation", "name": "step", "ts": 0.0, "dur": 9.0, "args": {"External id": 1}},
        {**host, "cat": "cpu_op", "name": "aten::mm", "ts": 1.0, "dur": 2.0, "args": {"External id": 2}},
        {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1.5, "dur": 0.5, "args": {"correlation": 5}},
        {**host, "cat": "cuda_runtime", "name": "cudaGraphLaunch", "ts": 4.0, "dur": 0.5, "args": {"correlation": 6}},
        {**device, "name": "gemm", "ts": 3.0, "dur": 2.0, "args": {**on_stream, "External id": 2, "correlation": 5}},
        {**device, "name": "node", "ts": 6.0, "dur": 1.0, "args": {**on_stream, "External id": 1, "correlation": 6}},
        {**device, "name": "node", "ts": 8.0, "dur": 1.5, "args": {**on_stream, "External id": 1, "correlation": 6}},
    ]
    return {"schemaVersion": 1, "baseTimeNanoseconds": 0, "traceEvents": events}


def same_as_kineto(spool: SpoolWriter) -> SpoolWriter:
    spool.object("meta", start_ns=1_000)
    spool.record(1, 41, "step", 1_000, 10_000, seq=1)
    spool.record(1, 41, "aten::mm", 2_000, 4_000, seq=2, parent=1, depth=1, source=CONSTANTS["PLN_SOURCE_TORCH"])
    spool.call(1, 41, "cudaLaunchKernel", 2_500, 3_000, 5, seq=3, parent=2, depth=2)
    spool.call(1, 41, "cudaGraphLaunch", 5_000, 5_500, 6, seq=4, parent=1, depth=1)
    for name, start_ns, end_ns, number in (
        ("gemm", 4_000, 6_000, 5),
        ("node", 7_000, 8_000, 6),
        ("node", 9_000, 10_500, 6),
    ):
        spool.activity(1, 10, start_ns, end_ns, number, name=name, device=0, context=1, stream=7)
    return spool


def summary(capture: Capture) -> list[tuple[Any, ...]]:
    return [
        (
            *(event.name, event.time_range.start, event.device_type, event.activity_type, event.device_time_total),
            *(event.self_device_time_total, event.cpu_parent and event.cpu_parent.name),
            [(kernel.name, kernel.device, kernel.duration) for kernel in event.kernels],
        )
        for event in capture.function_events
    ]


def test_our_capture_is_what_a_trace_of_kineto_of_the_same_work_gives(spool: SpoolWriter, tmp_path: Path) -> None:
    (tmp_path / "kineto.json").write_text(json.dumps(kineto_trace()))
    theirs, ours = import_trace(tmp_path / "kineto.json"), capture_of(same_as_kineto(spool))
    assert summary(ours) == summary(theirs)
    tables = [
        of.key_averages().table(sort_by="cuda_time_total").split("Self CPU time total")[0] for of in (ours, theirs)
    ]
    assert tables[0] == tables[1]
    ours.export_chrome_trace(tmp_path / "ours.json")
    theirs.export_chrome_trace(tmp_path / "theirs.json")
    assert flows(tmp_path / "ours.json") == flows(tmp_path / "theirs.json") != []


# ---- devices, notices ----


def test_devices_and_streams_are_listed(spool: SpoolWriter, tmp_path: Path) -> None:
    spool.activity(1, 8, 0, 0, device=0, name="H200", attributes=f'{{"uuid": "GPU-a", "totalGlobalMem": {139 << 30}}}')
    spool.activity(1, 11, 0, 0, device=0, stream=7, detail=5, name="copies")
    spool.activity(1, 11, 0, 0, device=0, stream=8, detail=2, name="a thread")
    capture = capture_of(spool)
    meta = capture.meta
    assert meta["devices"] == [{"id": 0, "name": "H200", "memory_bytes": 139 << 30, "uuid": "GPU-a"}]
    capture.export_chrome_trace(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["deviceProperties"] == [
        {"id": 0, "name": "H200", "totalGlobalMem": 139 << 30, "uuid": "GPU-a"}
    ]
    assert meta["streams"] == [{"pid": 41, "device": 0, "stream": 7, "name": "copies"}]


def test_a_device_has_one_number_whatever_each_process_calls_it(spool: SpoolWriter) -> None:
    """CUDA_VISIBLE_DEVICES gave each of two processes a device of its own, which it calls 0; a third one sees both."""
    for region, seen in ((1, "a"), (2, "b"), (3, "ba")):
        spool.region(region, 40 + region)
        for device, name in enumerate(seen):
            spool.activity(region, 8, 0, 0, device=device, name=name, attributes=f'{{"uuid": "GPU-{name}"}}')
            spool.activity(region, 3, 10 * region + device, 50, device=device, name=name)
    capture = capture_of(spool)
    assert rows(capture, "activities", "name", "device") == [("a", 0), ("b", 2), ("b", 2), ("a", 0)]
    assert [(device["id"], device["name"]) for device in capture.meta["devices"]] == [(0, "a"), (2, "b")]


def test_two_devices_of_a_process_stay_two_whatever_it_says_of_them(spool: SpoolWriter) -> None:
    for device in (0, 1):
        spool.activity(1, 8, 0, 0, device=device, name="fake", attributes='{"uuid": "GPU-0"}')
        spool.activity(1, 3, 10 + device, 20, device=device)
    capture = capture_of(spool)
    assert rows(capture, "activities", "device") == [(0,), (1,)]
    assert [device["id"] for device in capture.meta["devices"]] == [0, 1]


def test_notices_are_in_the_meta_once_each(spool: SpoolWriter) -> None:
    spool.region(2, 42)
    for _ in range(3):
        spool.notice(1, "CUPTI is held by another profiler")
    spool.notice(2, "", "CLOCK", value=40)
    spool.record(1, 41, "of a later version", 10, 10, kind=CONSTANTS["PLN_NOTICE"], scope=99)
    assert capture_of(spool).meta["notices"] == [
        {"pid": 41, "source": "CUDA", "kind": "text", "text": "CUPTI is held by another profiler", "value": 0},
        {"pid": 42, "source": "CUDA", "kind": "clock", "text": "", "value": 40},
    ]


def test_notices_have_a_limit_and_the_rest_is_counted(spool: SpoolWriter) -> None:
    for number in range(1_013):
        spool.notice(1, f"notice {number}")
    capture = capture_of(spool)
    assert (len(capture.meta["notices"]), losses(capture)) == (1_000, {"notices": 13})


def test_a_capture_without_devices_says_nothing_of_them(training: Capture) -> None:
    assert not {"notices", "devices", "streams"} & training.meta.keys()
    assert not {"category", "correlation", "stack"} & training.columns["events"].keys()


# ---- stacks ----


def stacked(spool: SpoolWriter) -> SpoolWriter:
    """gpu_spool's first kernel launched in matmul, called by main; the graph by native code alone."""
    for frame, (kind, name) in enumerate([("python", "main"), ("python", "matmul"), ("native", "launch")], start=1):
        place = {"file": "train.py", "line": 10 * frame} if kind == "python" else {}
        spool.object("frame", id=frame, kind=kind, name=name, module="", **place)
    spool.object("stack", id=1, frames=[3, 2, 1])
    spool.object("stack", id=2, frames=[3])
    spool.sample("CALL", 41, 41, 1_250, 1_250, range_seq=3, stack=1)
    spool.sample("CALL", 41, 41, 6_050, 6_050, range_seq=7, stack=2)
    spool.sample("CALL", 41, 41, 7_050, 7_050, range_seq=77, stack=2)  # its range was lost
    spool.sample("CALL", 77, 41, 1_250, 1_250, range_seq=3, stack=2)  # of a process without a region
    return spool


def test_a_launch_and_the_operator_around_it_know_where_they_were_called() -> None:
    capture = capture_of(stacked(gpu_spool()))
    python, native = ["train.py(20): matmul", "train.py(10): main"], ["launch"]
    by_start = {event.time_range.start: event for event in capture.function_events}
    assert by_start[0.2].stack == python  # the launch
    assert by_start[0.1].stack == python  # aten::mm
    assert by_start[0.35].stack == python  # its kernel
    assert by_start[0.0].stack == []  # a range may be a few calls further out
    assert [by_start[start].stack for start in (5.0, 5.2, 5.4, 5.6)] == [native] * 4
    assert len(capture.columns["samples"]["stack"]) == 0


def test_a_backward_launch_has_the_stack_of_its_forward_operator(spool: SpoolWriter) -> None:
    torch = CONSTANTS["PLN_SOURCE_TORCH"]
    spool.record(1, 41, "aten::mm", 100, 300, seq=1, source=torch, value=7)
    spool.call(1, 41, "cudaLaunchKernel", 150, 200, 5, seq=2, parent=1, depth=1)
    spool.record(1, 43, "MmBackward0", 400, 700, seq=1, source=torch, value=7, scope=1)
    spool.call(1, 43, "cudaLaunchKernel", 450, 500, 6, seq=2, parent=1, depth=1)
    spool.object("frame", id=1, kind="python", name="forward", file="a.py", line=3, module="")
    spool.object("stack", id=1, frames=[1])
    spool.sample("CALL", 41, 41, 150, 150, range_seq=2, stack=1)
    events = capture_of(spool).function_events
    assert [(event.name, event.stack) for event in events if event.thread == 43] == [
        ("MmBackward0", ["a.py(3): forward"]),
        ("cudaLaunchKernel", ["a.py(3): forward"]),
    ]


# ---- any work ----


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


# ---- what a job says ----


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
