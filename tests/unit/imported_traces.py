"""Traces that a test makes, and what it asks about what they became."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pillion
from pillion._capture import Capture
from pillion._tables import check_references


def trace(tmp_path: Path, events: list[dict[str, Any]] | bytes, **members: Any) -> Capture:
    path = tmp_path / "trace.json"
    path.write_bytes(events if isinstance(events, bytes) else json.dumps({"traceEvents": events, **members}).encode())
    capture = pillion.import_trace(path)
    check_references(capture.columns)
    return capture


def op(name: str, ts: float, dur: float, **fields: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 7, "tid": 8, "ts": ts, "dur": dur, "args": {}, **fields}


def names(capture: Capture, table: str = "events") -> list[str]:
    texts = capture.columns["strings"]["text"]
    return [texts[row] for row in capture.columns[table]["name"].tolist()]


def losses(capture: Capture) -> dict[str, int]:
    table = capture.columns["losses"]
    return dict(zip(table["kind"].tolist(), table["count"].tolist()))
