"""Nsight Systems' and nvprof's databases: made by hand in several schemas, damaged, and hostile."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imported_traces import losses, names

import pillion
from pillion._capture import Capture
from pillion._errors import CaptureError
from pillion._tables import check_references, length
from pillion.importers.nvtx import nvtx_range
from pillion_probes.layout import CONSTANTS

Rows = list[dict[str, Any]]


def database(path: Path, **tables: Rows) -> Path:
    """A database of tables whose columns are those of their first rows."""
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for name, rows in tables.items():
            columns = ", ".join(f'"{column}"' for column in rows[0])
            connection.execute(f"CREATE TABLE {name} ({columns})")
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", [tuple(row.values()) for row in rows])
    return path


def imported(path: Path) -> Capture:
    capture = pillion.import_trace(path)
    check_references(capture.columns)
    return capture


def thread(pid: int, tid: int) -> int:
    return (1 << 48) | pid << 24 | tid


TEXTS = {1: "cudaLaunchKernel", 2: "gemm<float>", 3: "gemm", 4: "cuMemcpyAsync", 5: "forward", 6: "python3", 7: "main"}


def nsys_tables() -> dict[str, Rows]:
    call = {"start": 110, "end": 120, "eventClass": 0, "globalTid": thread(7, 8), "correlationId": 9, "nameId": 1}
    device = {"start": 300, "end": 400, "deviceId": 1, "contextId": 2, "streamId": 3, "correlationId": 9}
    nvtx = {"eventType": 59, "rangeId": None, "text": None, "globalTid": thread(7, 8), "endGlobalTid": None}
    return {
        "META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"}],
        "StringIds": [{"id": number, "value": text} for number, text in TEXTS.items()],
        "NVTX_EVENTS": [
            {"start": 100, "end": 200, **nvtx, "textId": 5},
            {
                "start": 105,
                "end": 150,
                **nvtx,
                "text": "aten::mm, seq = 12, op_id = 3, sizes = [[2, 3], []]",
                "textId": 0,
            },
            {"start": 150, "end": None, **nvtx, "eventType": 34, "text": "mark", "textId": 0},
            {"start": 160, "end": None, **nvtx, "text": "open", "textId": 0},
            {
                "start": 50,
                "end": 250,
                **nvtx,
                "eventType": 60,
                "text": "far",
                "textId": 0,
                "endGlobalTid": thread(7, 9),
            },
            {"start": 1, "end": None, **nvtx, "eventType": 75, "text": "domain", "textId": 0},
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            {**call, "returnValue": 0},
            {**call, "start": 130, "end": 131, "correlationId": 10, "nameId": 4, "returnValue": 2},
            {**call, "globalTid": thread(6, 6), "returnValue": 0},
        ],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            {
                **device,
                "globalPid": thread(7, 0),
                "demangledName": 2,
                "shortName": 3,
                "gridX": 4,
                "registersPerThread": 32,
            },
            {
                **device,
                "globalPid": thread(6, 0),
                "demangledName": 2,
                "shortName": 3,
                "gridX": 4,
                "registersPerThread": 32,
            },
        ],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [
            {
                **device,
                "start": 410,
                "end": 420,
                "correlationId": 10,
                "globalPid": thread(7, 0),
                "bytes": 64,
                "copyKind": 1,
            }
        ],
        "PROCESSES": [{"globalPid": thread(7, 0), "pid": 7, "name": "python3"}],
        "ThreadNames": [{"nameId": 7, "priority": 0, "globalTid": thread(7, 8)}],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_000_000, "systemClockNs": 90}],
        "SCHED_EVENTS": [{"start": 1, "cpu": 0}, {"start": 2, "cpu": 0}],
    }


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


def sampled_tables() -> dict[str, Rows]:
    """Three samples of a thread within the range "forward" (100 to 200), one of another; switches of both, and idle."""
    tables = nsys_tables()
    texts = {20: "_ZN2at6matmulEv", 21: "/usr/lib/libtorch_cpu.so", 22: "do_syscall_64", 23: "[kernel.kallsyms]"}
    tables["StringIds"] += [{"id": number, "value": text} for number, text in texts.items()]
    sample = {"cpu": 3, "threadState": 1, "globalTid": thread(7, 8), "cpuCycles": 99}
    tables["COMPOSITE_EVENTS"] = [
        {**sample, "id": 30, "start": 185},
        {**sample, "id": 10, "start": 165},
        {**sample, "id": 20, "start": 175},
        {**sample, "id": 40, "start": 900, "globalTid": thread(6, 6)},
    ]
    frame = {"unresolved": None, "kernelMode": 0}
    tables["SAMPLING_CALLCHAINS"] = [
        {"id": 10, "symbol": 20, "module": 21, "stackDepth": 1, **frame},
        {"id": 10, "symbol": 22, "module": 23, "stackDepth": 0, **frame},
        {"id": 20, "symbol": 99, "module": 99, "stackDepth": 0, **frame},
        {"id": 30, "symbol": 22, "module": 23, "stackDepth": 0, **frame},
        {"id": 30, "symbol": 20, "module": 21, "stackDepth": 1, **frame},
    ]
    switches = [(90, 1, 8), (167, 0, 8), (172, 1, 8), (177, 0, 8), (178, 0, 8), (181, 1, 8), (190, 0, 8), (50, 0, 9)]
    tables["SCHED_EVENTS"] = [
        *({"start": start, "cpu": 3, "isSchedIn": came, "globalTid": thread(7, tid)} for start, came, tid in switches),
        {"start": 60, "cpu": 4, "isSchedIn": 1, "globalTid": thread(7, 9)},
        {"start": 10, "cpu": 0, "isSchedIn": 0, "globalTid": 1 << 48},
        {"start": 20, "cpu": 0, "isSchedIn": 1, "globalTid": 1 << 48},
    ]
    return tables


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


def nvprof_tables() -> dict[str, Rows]:
    where = struct.pack("<III", 7, 0xEADC3740, 0)
    texts = {1: "-- null --", 2: "outer", 3: "add, seq = 4", 4: "_Z3addPf", 5: "python x.py"}

    def marker(flags: int, timestamp: int, number: int, name: int) -> dict[str, Any]:
        return {"flags": flags, "timestamp": timestamp, "id": number, "objectKind": 2, "objectId": where, "name": name}

    call = {"processId": 7, "threadId": 0xEADC3740 - 2**32, "returnValue": 0}
    device = {"deviceId": 0, "contextId": 1, "streamId": 7}
    return {
        "StringTable": [{"_id_": number, "value": text} for number, text in texts.items()],
        "Version": [{"version": 12}],
        "CUPTI_ACTIVITY_KIND_MARKER": [
            *(marker(2, 100, 1, 2), marker(2, 110, 2, 3), marker(4, 150, 2, 0), marker(4, 200, 1, 0)),
            *(marker(4, 210, 9, 0), marker(2, 220, 8, 2)),
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            {"cbid": 211, "start": 120, "end": 130, "correlationId": 5, **call},
            {"cbid": 13, "start": 160, "end": 170, "correlationId": 6, **call},
            {"cbid": 9_999, "start": 180, "end": 181, "correlationId": 7, **call},
        ],
        "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL": [
            {"start": 300, "end": 310, "name": 4, "correlationId": 5, **device},
            {"start": 320, "end": 330, "name": 4, "correlationId": 6, **device},
        ],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [
            {"start": 340, "end": 350, "copyKind": 2, "bytes": 8, "correlationId": 7, **device}
        ],
        "CUPTI_ACTIVITY_KIND_NAME": [{"objectKind": 1, "objectId": where, "name": 5}],
    }


def test_an_nvprof_database_becomes_events_and_activities(tmp_path: Path) -> None:
    capture = imported(database(tmp_path / "net.sql", **nvprof_tables()))
    events, activities = capture.columns["events"], capture.columns["activities"]
    assert names(capture) == ["outer", "add", "cudaLaunchKernel", "cudaLaunch", "cuda_runtime call 9999", "outer"]
    assert events["parent"].tolist() == [-1, 0, 1, 0, 0, -1]
    assert set(events["tid"].tolist()) == {0xEADC3740}
    assert events["sequence_nr"].tolist() == [-1, 4, -1, -1, -1, -1]
    assert names(capture, "activities") == ["add(float*)", "add(float*)", "Memcpy DtoH"]
    assert activities["launch"].tolist() == [2, 3, 4]
    assert activities["event"].tolist() == [1, 0, 0]
    assert capture.columns["processes"]["comm"].tolist() == ["python x.py"]
    assert losses(capture) == {"lonely_ends": 1, "unfinished": 1}
    assert capture.meta["trace"] == {"version": [12]}


@pytest.mark.parametrize(
    ("table", "number", "name"),
    [
        ("RUNTIME", 1, "cudaDriverGetVersion"),
        ("RUNTIME", 20, "cudaMalloc"),
        ("RUNTIME", 211, "cudaLaunchKernel"),
        ("RUNTIME", 214, "cudaLaunchKernel_ptsz"),
        ("RUNTIME", 430, "cudaLaunchKernelExC"),
        ("RUNTIME", 9_999, "cuda_runtime call 9999"),
        ("DRIVER", 1, "cuInit"),
        ("DRIVER", 307, "cuLaunchKernel"),
        ("DRIVER", 9_999, "cuda_driver call 9999"),
    ],
)
def test_calls_have_their_functions_name(tmp_path: Path, table: str, number: int, name: str) -> None:
    tables = nvprof_tables()
    call = {**tables["CUPTI_ACTIVITY_KIND_RUNTIME"][0], "cbid": number}
    capture = imported(database(tmp_path / "net.sql", **tables | {f"CUPTI_ACTIVITY_KIND_{table}": [call]}))
    assert name in names(capture)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("forward", ("forward", -1, False, "")),
        ("a, b", ("a, b", -1, False, "")),
        ("aten::view, op_id = 314290", ("aten::view", -1, False, "")),
        ("embedding, seq = 65", ("embedding", 65, False, "")),
        ("MmBackward0, stashed seq = 7, sizes = [[1, 2], [3]]", ("MmBackward0", 7, True, "[[1, 2], [3]]")),
        ("x, seq = 12345678901234567890", ("x", -1, False, "")),
        ("", ("", -1, False, "")),
    ],
)
def test_the_texts_of_emit_nvtx_are_taken_apart(text: str, parts: tuple[Any, ...]) -> None:
    assert nvtx_range(text)[:4] == parts


def test_importing_makes_no_file_and_changes_none(tmp_path: Path) -> None:
    path = database(tmp_path / "a b%20?.sqlite", **nsys_tables())
    before = path.read_bytes()
    os.chmod(path, 0o444)
    imported(path)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == before


def test_values_of_other_types_are_converted(tmp_path: Path) -> None:
    tables = sampled_tables()
    hostile = [None, "text", b"\xff", 1e300, -(2**63), 2**63 - 1, ""]
    for name, rows in tables.items():
        for value in hostile if name not in ("META_DATA_EXPORT", "StringIds") else ():
            tables[name] = [*tables[name], dict.fromkeys(rows[0], value)]
    capture = imported(database(tmp_path / "hostile.sqlite", **tables))
    assert "forward" in names(capture)
    assert losses(capture)["bad_times"] > 0


@pytest.mark.parametrize(
    ("tables", "cause"),
    [
        ({"users": [{"name": "x"}]}, "an SQLite database of another tool"),
        ({"StringTable": [{"_id_": 1, "value": "x"}]}, "an SQLite database of another tool"),
    ],
)
def test_a_database_of_another_tool_is_refused(tmp_path: Path, tables: dict[str, Rows], cause: str) -> None:
    with pytest.raises(CaptureError, match=cause):
        pillion.import_trace(database(tmp_path / "other.sqlite", **tables))


def test_a_header_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "header.sqlite"
    path.write_bytes(b"SQLite format 3\x00" + bytes(20))
    with pytest.raises(CaptureError, match="cannot import"):
        pillion.import_trace(path)


def test_a_truncated_database_gives_what_is_before_the_cut(tmp_path: Path) -> None:
    tables = nsys_tables()
    tables["NVTX_EVENTS"] = [{**tables["NVTX_EVENTS"][0], "start": start, "end": start + 5} for start in range(20_000)]
    path = database(tmp_path / "cut.sqlite", **tables)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    capture = imported(path)
    assert 0 < length(capture.columns["events"]) < 20_000
    assert losses(capture)["sqlite_damaged"] > 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=20), st.booleans())
def test_damage_never_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[float, int]], is_nsys: bool
) -> None:
    tables = sampled_tables() if is_nsys else nvprof_tables()
    path = database(tmp_path_factory.getbasetemp() / "damaged.sqlite", **tables)
    data = bytearray(path.read_bytes())
    for place, value in flips:
        data[16 + int(place * (len(data) - 16))] = value
    path.write_bytes(data)
    with contextlib.suppress(CaptureError):
        imported(path)
