"""A million ranges from spool to answers: seconds for each step, and the peak of memory.

python tests/bench/model_1m.py [RANGES]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pillion._capture import Capture, open_capture, read_spool_capture, write_capture
from pillion.merge.spool import BLOCK_DTYPE, RANGE_DTYPE, SAMPLE_DTYPE
from pillion.render.text import render_report
from pillion_probes.layout import CONSTANTS

_NAMES = 211
_THREADS = 4
_DEPTH = 10
_SAMPLES = 20_011
_RING = 16_384


def write_spool(path: Path, ranges: int) -> None:
    """Chains of ten nested ranges on four threads, in the order in which they end, and samples over them."""
    log = bytearray(8)
    names = []
    for number in range(_NAMES):
        text = f"range {number}".encode()
        names.append(len(log) // 8)
        log += len(text).to_bytes(4, "little") + bytes(4) + text + bytes(-len(text) % 8)
    per_thread = ranges // _THREADS
    place = np.arange(per_thread)
    chain, depth = place // _DEPTH, _DEPTH - 1 - place % _DEPTH  # the innermost ends first
    records = np.zeros(per_thread, RANGE_DTYPE)
    records["kind"] = CONSTANTS["PLN_RANGE"]
    records["start_ns"] = chain * 10_000 + depth * 100
    records["end_ns"] = chain * 10_000 + 9_000 - depth * 100
    records["name"] = np.array(names)[(chain * 7 + depth) % _NAMES]
    records["depth"] = depth
    records["seq"] = chain * _DEPTH + depth + 1
    records["parent"] = np.where(depth > 0, records["seq"] - 1, 0)
    samples = np.zeros(_SAMPLES, SAMPLE_DTYPE)
    pick = np.linspace(0, per_thread - 1, _SAMPLES).astype(int)
    samples["kind"], samples["pid"], samples["tid"] = CONSTANTS["PLN_SAMPLE"], 7, 100
    samples["start_ns"] = samples["end_ns"] = records["start_ns"][pick] + 10
    samples["range_seq"], samples["range_name"] = records["seq"][pick], records["name"][pick]
    samples["weight_ns"] = 1_000_003
    with open(path, "wb") as file:
        file.write(_block("STRINGS", bytes(log)))
        for begin in range(0, per_thread, _RING):
            for thread in range(_THREADS):
                part = records[begin : begin + _RING].copy()
                part["tid"] = part["end_tid"] = 100 + thread
                file.write(_block("RECORDS", part.tobytes()))
        file.write(_block("SAMPLES", samples.tobytes()))
        file.write(
            _block(
                "JSON",
                b'[{"type":"region","region":1,"pid":7,"start_ns":0},{"type":"meta","rate_hz":99,'
                b'"collector":"agent","start_ns":0},{"type":"end","end_ns":9000000000}]',
            )
        )


def _block(kind: str, payload: bytes) -> bytes:
    header = np.zeros(1, BLOCK_DTYPE)
    header["magic"], header["version"] = CONSTANTS["PLN_BLOCK_MAGIC"], CONSTANTS["PLN_VERSION"]
    header["kind"], header["length"] = CONSTANTS[f"PLN_BLOCK_{kind}"], len(payload)
    if kind in ("STRINGS", "RECORDS"):
        header["pid"], header["region"] = 7, 1
    return header.tobytes() + payload


def measure(step: str, work: Callable[[], Any]) -> Any:
    begin = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - begin
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{step:36}{seconds:8.3f} s   peak {peak_mb:6.0f} MB")
    return result


def main() -> None:
    ranges = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        spool, directory = Path(folder) / "capture.spool", Path(folder) / "capture"
        write_spool(spool, ranges)
        measure("(imports, empty work)", lambda: None)
        measure("spool to capture in memory", lambda: read_spool_capture(spool))
        measure("spool to capture on disk", lambda: write_capture(spool, directory))
        capture: Capture = measure("open", lambda: open_capture(directory))
        measure("key_averages", capture.key_averages)
        measure("key_averages().table()", lambda: capture.key_averages().table(sort_by="cpu_time_total"))
        measure("total_average", capture.total_average)
        for by in ("range", "function", "thread"):
            measure(f"report --by {by}", lambda by=by: render_report(capture, by))
        measure("export_chrome_trace", lambda: capture.export_chrome_trace(Path(folder) / "trace.json"))
        measure("function_events as objects", lambda: capture.function_events[0])
        measure("function_events.table()", lambda: capture.function_events.table(sort_by="cpu_time_total"))


if __name__ == "__main__":
    main()
