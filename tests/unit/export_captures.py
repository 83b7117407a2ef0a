"""A capture made by hand that has something in every table."""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion._capture import Capture
from pillion._tables import Tables, from_rows, label_column
from pillion_probes.layout import CONSTANTS

_EVENTS: list[dict[str, Any]] = [
    # pid 41, tid 41: a step with an operator that calls the runtime twice, and a forward pass
    {"name": "ProfilerStep#3", "start_ns": 10_000, "end_ns": 20_000, "category": "user_annotation", "external_id": 1},
    {
        "name": "aten::mm",
        "start_ns": 11_000,
        "end_ns": 15_000,
        "parent": 0,
        "depth": 1,
        "category": "cpu_op",
        "external_id": 2,
        "sequence_nr": 7,
        "scope": 0,
        "shapes": "[[2, 3], [3, 5]]",
        "stack": 1,
    },
    {
        "name": "cudaLaunchKernel",
        "start_ns": 11_500,
        "end_ns": 12_250,
        "parent": 1,
        "depth": 2,
        "category": "cuda_runtime",
        "scope": 0,
        "external_id": 2,
        "correlation": 101,
        "attributes": '{"cbid": 211}',
    },
    {
        "name": "cudaMemcpyAsync",
        "start_ns": 13_000,
        "end_ns": 13_001,
        "parent": 1,
        "depth": 2,
        "category": "cuda_runtime",
        "scope": 0,
        "external_id": 2,
        "correlation": 103,
    },
    # tid 43: its backward pass, a range that another thread ended, two that overlap without nesting, a mark
    {
        "name": "MmBackward0",
        "tid": 43,
        "start_ns": 16_000,
        "end_ns": 17_000,
        "category": "cpu_op",
        "external_id": 3,
        "sequence_nr": 7,
        "scope": 1,
        "fwd_thread": 1,
    },
    {"name": "request", "tid": 43, "start_ns": 17_000, "end_ns": 19_000, "end_tid": 41, "flags": "PLN_ASYNC"},
    {"name": "half", "tid": 43, "start_ns": 18_000, "end_ns": 18_600},
    {"name": "other half", "tid": 43, "start_ns": 18_300, "end_ns": 18_900},
    {"name": "loss", "tid": 43, "start_ns": 18_700, "end_ns": 18_700, "kind": "PLN_MARK", "value": 5},
]
_ACTIVITIES = [
    # kind, name, start, end, device, stream, correlation, event
    ("memcpy", "Memcpy HtoD", 13_500, 14_000, 0, 7, 103, 1),
    ("kernel", "gemm<float>", 14_000, 16_500, 0, 7, 101, 1),
    ("kernel", "gemm<float>", 16_000, 18_000, 0, 7, 101, 1),  # of the same launch, as a graph's are; overlaps
    ("sync", "Context Sync", 18_000, 19_000, 0, -1, 0, -1),
]
_LAUNCHES = [3, 2, 2, -1]


def device_capture() -> Capture:
    """A step with an operator, its kernels and its backward pass; a sample and a wait with stacks."""
    texts = [""]

    def string(text: str) -> int:
        if text not in texts:
            texts.append(text)
        return texts.index(text)

    tables: Tables = {
        "activities": from_rows("activities", [(*row[:1], string(row[1]), *row[2:]) for row in _ACTIVITIES])
    }
    tables["activities"] |= {
        "context": np.ones(4, np.int64),
        "launch": np.array(_LAUNCHES),
        "bytes": np.array([4_096, 0, 0, 0]),
        "attributes": np.array([0, string('{"grid": [1, 2, 1], "block": [32, 1, 1]}'), 0, 0], np.int32),
    }
    tables["events"] = from_rows("events", [_event_row(row, event, string) for row, event in enumerate(_EVENTS)])
    for key, default in (("external_id", 0), ("correlation", 0), ("sequence_nr", -1), ("fwd_thread", 0), ("stack", 0)):
        tables["events"][key] = np.array([event.get(key, default) for event in _EVENTS])
    tables["events"]["scope"] = np.array([event.get("scope", 7) for event in _EVENTS], np.int16)
    tables["events"]["category"] = label_column([event.get("category", "user_annotation") for event in _EVENTS])
    for key in ("shapes", "attributes"):
        tables["events"][key] = np.array([string(event.get(key, "")) for event in _EVENTS], np.int32)
    tables["frames"] = from_rows(
        "frames",
        [
            (0, "python", "main", "train.py", 10, ""),
            (1, "python", "matmul", "model.py", 20, ""),
            (2, "kernel", "do_nanosleep", "", 0, ""),
            (3, "native", "gemm", "", 0, "libblas.so"),
        ],
    )
    tables["stacks"] = from_rows("stacks", [(0, []), (1, [1, 0]), (2, [2, 0]), (3, [3, 1, 0])])
    mm, request = string("aten::mm"), string("request")
    tables["samples"] = from_rows(
        "samples", [(14_500, 41, 41, 2, 1_009, 0, 3, 1, mm), (14_800, 41, 41, 2, 1_013, 0, 0, 1, mm)]
    )
    tables["waits"] = from_rows("waits", [(17_100, 17_900, 41, 43, 0, 0, 2, 5, request, 20, 1, 41, 41)])
    tables["processes"] = from_rows("processes", [(41, 0, -1, 1, 0, "train", "train", None, None)])
    tables["threads"] = from_rows(
        "threads", [(41, tid, name, *[-1] * 6) for tid, name in ((41, "train"), (43, "autograd"))]
    )
    tables["losses"] = from_rows("losses", [("ring_full", 41, 43, 3, "")])
    tables["strings"] = from_rows("strings", enumerate(texts))
    meta = {
        "start_ns": 10_000,
        "end_ns": 20_000,
        "realtime_offset_ns": 5_000_000_000,
        "host": "box",
        "rate_hz": 99,
        "format": 1,
    }
    how = {
        "period_ns": 10_000_000,
        "wait_threshold_ns": 100_000,
        "collector": "agent",
        "reason": "finish",
        "cost": {},
        "format": 1,
    }
    return Capture(tables, {**meta, **how})


def _event_row(row: int, event: dict[str, Any], string: Any) -> tuple[Any, ...]:
    tid = event.get("tid", 41)
    return (
        *(row, 41, tid, string(event["name"]), event["start_ns"], event["end_ns"]),
        *(event.get("parent", -1), event.get("depth", 0), CONSTANTS[event.get("kind", "PLN_RANGE")]),
        *(CONSTANTS[event["flags"]] if "flags" in event else 0, 0, 0, event.get("end_tid", tid), event.get("value", 0)),
    )
