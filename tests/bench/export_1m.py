"""A million events to each format: seconds, bytes of the file, and the memory that it took beyond the capture's.

python tests/bench/export_1m.py [EVENTS]

Two captures: plain ranges with samples, as a recording of Python code gives; and operators with shapes, calls and
kernels, as torch's profiler gives. Each export is a process of its own, so that its peak is its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from model_1m import write_spool

from pillion._capture import Capture, open_capture, save_capture, write_capture
from pillion._tables import Array, Labels, Tables, from_rows, text_column
from pillion.export.registry import FORMATS, export

_PER_STEP = 10  # operators, of which three launch a kernel
_STEP_NS = 20_000


def operators(count: int) -> Capture:
    """Steps of ten nested operators on one thread, three of which call the runtime, which starts a kernel."""
    steps = count // 16
    kernels = steps * 3
    texts = [f"aten::operator_{number}" for number in range(211)] + [f"kernel_{number}<float>" for number in range(53)]
    shapes = [f"[[{number}, 64], [64, {number}]]" for number in range(97)]
    step = np.arange(steps)[:, None]
    offset = np.arange(_PER_STEP + 3)
    is_call = offset >= _PER_STEP
    start = step * _STEP_NS + np.where(is_call, 1_000 + (offset - _PER_STEP) * 100, offset * 10)
    end = np.where(is_call, start + 50, step * _STEP_NS + 19_000 - offset * 10)
    rows = steps * len(offset)
    call = (np.arange(rows).reshape(steps, -1))[:, _PER_STEP:].reshape(-1)
    tables: Tables = {name: from_rows(name, []) for name in ("samples", "waits", "frames", "processes", "losses")}
    tables["stacks"] = from_rows("stacks", [(0, [])])
    tables["strings"] = {
        "id": np.arange(1 + len(texts) + len(shapes)),
        "text": text_column(["", *texts, *shapes]),
    }
    tables["threads"] = from_rows("threads", [(7, 7, "python", -1, -1, -1, -1, -1, -1)])
    number = np.arange(rows)
    call_mask = np.tile(is_call, steps)
    parents = np.where(offset == 0, -1, np.where(is_call, _PER_STEP - 1, offset - 1))
    parent = np.where(parents < 0, -1, parents + step * len(offset)).reshape(-1)
    tables["events"] = {
        "id": number,
        "pid": np.full(rows, 7, np.uint32),
        "tid": np.full(rows, 7, np.uint32),
        "name": (1 + number % 211).astype(np.int32),
        "start_ns": start.reshape(-1),
        "end_ns": end.reshape(-1),
        "parent": parent,
        "depth": np.tile(np.where(is_call, _PER_STEP, offset), steps).astype(np.uint16),
        "kind": np.ones(rows, np.uint16),
        "flags": np.zeros(rows, np.uint16),
        "source": np.zeros(rows, np.uint16),
        "args": np.zeros(rows, np.int32),
        "end_tid": np.full(rows, 7, np.uint32),
        "value": np.zeros(rows, np.uint64),
        "category": Labels(call_mask.astype(np.int32), ("cpu_op", "cuda_runtime")),
        "correlation": np.where(call_mask, number, 0),
        "external_id": np.where(call_mask, parent + 1, number + 1),
        "sequence_nr": np.where(number % 5 == 0, number, -1),
        "shapes": np.where(call_mask, 0, 1 + len(texts) + number % len(shapes)).astype(np.int32),
    }
    tables["activities"] = _kernels(call, start.reshape(-1)[call] + 500, parent[call], kernels)
    meta = {"start_ns": 0, "realtime_offset_ns": 0, "end_ns": int(end.max()), "rate_hz": 0, "format": 1}
    return Capture(tables, meta)


def _kernels(call: Array, start: Array, event: Array, count: int) -> dict[str, object]:
    return {
        "kind": Labels(np.zeros(count, np.int32), ("kernel",)),
        "name": (212 + np.arange(count) % 53).astype(np.int32),
        "start_ns": start,
        "end_ns": start + 90,
        "device": np.zeros(count, np.int32),
        "stream": np.full(count, 7, np.int64),
        "correlation": call,
        "event": event,
        "launch": call,
    }


def _peak_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def measure(directory: str, name: str) -> None:
    """Export once, in this process, and print what it took."""
    capture = open_capture(directory)
    target = Path(directory) / f"out.{name}"
    # A small one first: what is loaded for the first time is not the export's cost.
    small = {
        table: columns if table in ("strings", "stacks", "frames") else _nothing(table)
        for table, columns in capture.columns.items()
    }
    export(Capture(small, capture.meta), target, name)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _peak_mb()
    begin = time.perf_counter()
    export(capture, target, name)
    seconds = time.perf_counter() - begin
    files = target.iterdir() if target.is_dir() else [target]
    size_mb = sum(file.stat().st_size for file in files) / 1e6
    print(f"{name:12}{seconds:8.2f} s{size_mb:9.1f} MB{_peak_mb() - before:9.0f} MB more memory", flush=True)


def _nothing(table: str) -> dict[str, object]:
    return from_rows(table, [])


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        spool, ranges, torch_like = (Path(folder) / name for name in ("capture.spool", "ranges", "operators"))
        write_spool(spool, events)
        write_capture(spool, ranges)
        save_capture(operators(events), torch_like)
        for directory in (ranges, torch_like):
            print(f"{events:,} events, {directory.name}")
            for name in FORMATS:
                subprocess.run([sys.executable, __file__, "--one", directory, name], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(*sys.argv[2:])
    else:
        main()
