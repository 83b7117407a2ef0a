"""Nsight Systems' databases: what each table becomes, in several schemas."""

from __future__ import annotations

from pathlib import Path

from imported_databases import database, imported, nsys_tables, sampled_tables
from imported_traces import losses, names

from pillion_probes.layout import CONSTANTS


def test_an_nsys_export_becomes_events_and_activities(tmp_path: Path) -> None:
    capture = imported(database(tmp_path / "a.sqlite", **nsys_tables()))
    events, activities = capture.columns["events"], capture.columns["activities"]
    assert names(capture) == [
        *("cudaLaunchKernel", "far", "forward", "aten::mm", "cudaLaunchKernel", "cuMemcpyAsync", "mark", "open")
    ]
    assert events["parent"].tolist() == [-1, -1, -1, 2, 3, 3, 2, -1]
    kinds = [events["category"][row] for row in range(8)]
    assert kinds == ["cuda_runtime", *["user_annotation"] * 3, "cuda_runtime", "cuda_driver", *["user_annotation"] * 2]
    assert events["sequence_nr"].tolist() == [-1, -1, -1, 12, -1, -1, -1, -1]
    assert events["flags"][1] == CONSTANTS["PLN_ASYNC"]
    assert events["end_tid"][1] == 9
    assert events["flags"][7] == CONSTANTS["PLN_UNFINISHED"]
    assert events["end_ns"][7] == 250
    texts = capture.columns["strings"]["text"]
    assert texts[events["shapes"][3]] == "[[2, 3], []]"
    assert texts[events["attributes"][5]] == '{"return value": 2}'
    assert names(capture, "activities") == ["gemm<float>", "gemm<float>", "Memcpy HtoD"]
    assert activities["launch"].tolist() == [4, 0, 5]  # correlation numbers are each process's own
    assert activities["event"].tolist() == [3, 0, 3]
    assert activities["bytes"].tolist() == [0, 0, 64]
    assert activities["device"].tolist() == [1, 1, 1]
    assert '"grid": [4, 0, 0]' in texts[activities["attributes"][0]]
    assert capture.meta["realtime_offset_ns"] == 1_000_000 - 90
    assert capture.meta["trace"] == {"EXPORT_SCHEMA_VERSION": "3.25.0"}
    assert capture.columns["processes"]["comm"].tolist() == ["python3"]
    assert capture.columns["threads"]["name"].tolist() == ["main"]
    assert losses(capture) == {"unfinished": 1, "unread_rows": 2}
    assert "SCHED_EVENTS" in capture.columns["losses"]["place"][1]


def test_extracts_of_nsys_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    kernel = {"start": 10, "end": 30, "deviceId": 1, "streamId": 7, "correlationId": 5, "shortName": 1}
    path = database(
        tmp_path / "kernels.sqlite",
        StringIds=[{"id": 1, "value": "gemm"}],
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel],
    )
    capture = imported(path)
    assert (names(capture, "activities"), capture.columns["activities"]["end_ns"].tolist()) == (["gemm"], [30])
    path = database(tmp_path / "ranges.sqlite", NVTX_EVENTS=[{"start": 5, "end": 9, "text": "step"}])
    capture = imported(path)
    assert (names(capture), capture.columns["events"]["end_ns"].tolist()) == (["step"], [9])
    assert capture.columns["events"]["kind"].tolist() == [CONSTANTS["PLN_RANGE"]]
    assert losses(capture) == {}


def test_samples_of_nsys_have_their_stack_and_their_range(tmp_path: Path) -> None:
    capture = imported(database(tmp_path / "a.sqlite", **sampled_tables()))
    samples, frames, texts = (capture.columns[table] for table in ("samples", "frames", "strings"))
    assert samples["ts_ns"].tolist() == [165, 175, 185, 900]
    assert list(zip(samples["pid"].tolist(), samples["tid"].tolist())) == [(7, 8)] * 3 + [(6, 6)]
    assert set(samples["cpu"].tolist()) == {3}
    assert set(samples["weight_ns"].tolist()) == {10}
    assert (capture.meta["period_ns"], capture.meta["rate_hz"]) == (10, 100_000_000)
    stacks = [capture.columns["stacks"]["frames"][row].tolist() for row in samples["stack"].tolist()]
    described = [
        [(frames["kind"][row], frames["name"][row], frames["module"][row]) for row in stack] for stack in stacks
    ]
    both = [
        ("kernel", "do_syscall_64", "[kernel.kallsyms]"),
        ("native", "at::matmul()", "/usr/lib/libtorch_cpu.so"),
    ]
    assert described == [both, [("native", "[unknown]", "")], both, []]
    events = capture.columns["events"]
    innermost = [texts["text"][events["name"][row]] if row >= 0 else None for row in samples["event"].tolist()]
    assert innermost == ["open", "open", "open", None]
    assert [texts["text"][row] for row in samples["range_name"].tolist()] == ["open", "open", "open", ""]


def test_switches_of_nsys_become_waits(tmp_path: Path) -> None:
    capture = imported(database(tmp_path / "a.sqlite", **sampled_tables()))
    waits = capture.columns["waits"]
    rows = [
        tuple(waits[name].tolist()[row] for name in ("start_ns", "end_ns", "pid", "tid", "cpu")) for row in range(3)
    ]
    assert rows == [(50, 60, 7, 9, 3), (167, 172, 7, 8, 3), (178, 181, 7, 8, 3)]
    assert len(waits["start_ns"]) == 3
    assert losses(capture) == {"unfinished": 1, "switches": 1}
    assert capture.key_averages().table()


def test_metrics_of_gpus_are_counted(tmp_path: Path) -> None:
    tables = nsys_tables() | {"GPU_METRICS": [{"timestamp": 5, "typeId": 1, "metricId": 2, "value": 3}] * 7}
    capture = imported(database(tmp_path / "a.sqlite", **tables))
    assert losses(capture)["unread_rows"] == 7 + 2
    assert "GPU_METRICS" in capture.columns["losses"]["place"][1]


def test_tables_and_columns_that_an_older_schema_lacks_are_not_needed(tmp_path: Path) -> None:
    tables = nsys_tables()
    for table in ("META_DATA_EXPORT", "PROCESSES", "ThreadNames", "TARGET_INFO_SESSION_START_TIME", "SCHED_EVENTS"):
        del tables[table]
    old = {"EXPORT_META_DATA": [{"name": "EXPORT_SCHEMA_VERSION", "value": "2.9"}], **tables}
    absent = ("endGlobalTid", "returnValue", "globalPid", "demangledName", "textId", "copyKind", "bytes", "gridX")
    old = {name: [{k: v for k, v in row.items() if k not in absent} for row in rows] for name, rows in old.items()}
    capture = imported(database(tmp_path / "old.sqlite", **old))
    assert names(capture, "activities") == ["gemm", "gemm", "Memcpy kind 0"]
    assert capture.meta["trace"] == {"EXPORT_SCHEMA_VERSION": "2.9"}
    alone = imported(database(tmp_path / "alone.sqlite", NVTX_EVENTS=nsys_tables()["NVTX_EVENTS"]))
    assert "aten::mm" in names(alone)
