"""What GPUs did in FunctionEvents, tables and exports, next to what a trace of Kineto of the same work gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_captures import capture_of, event_names, stacked
from spool_writer import SpoolWriter, gpu_spool

from pillion._capture import FORMAT, Capture, open_capture, save_capture
from pillion._tables import SCHEMAS
from pillion.export.registry import FORMATS, export
from pillion.importers import import_trace
from pillion_probes.layout import CONSTANTS


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


# ---- stacks ----


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
