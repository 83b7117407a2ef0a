"""Databases of Nsight Systems and nvprof that a test makes."""

from __future__ import annotations

import contextlib
import sqlite3
import struct
from pathlib import Path
from typing import Any

import pillion
from pillion._capture import Capture
from pillion._tables import check_references

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
