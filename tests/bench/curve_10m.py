"""How cost grows from one to ten million events of a Kineto file: CPU seconds and peak memory of each stage.

python tests/bench/curve_10m.py [EVENTS …]     each number in a process of its own; ten million need 5 GB of disk

Four threads take turns, as in a trace of a job with a data loader: what is sorted by time then has to be sorted by
thread. Below each line stands the ratio to what the first line times its number of events would be.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from import_kineto import INDENTED, memory_mb, write_trace

import pillion
from pillion.importers.losses import Losses
from pillion.importers.trace_json import TraceJson

_THREADS = 4
_STAGES = ("parse", "import", "tree", "averages", "total", "table", "export")


def measure(path: Path) -> None:
    """One JSON object: the CPU seconds of each stage, and the peak of memory beyond the imports in MB."""
    small = path.with_name("small.json")  # loads what every process has to load
    write_trace(small, 70, INDENTED)
    everything(small, {})
    Path("/proc/self/clear_refs").write_text("5")  # a process begins with its parent's peak
    before_mb = memory_mb("VmRSS")
    found: dict[str, float] = {}
    everything(path, found)
    print(json.dumps({**found, "peak": memory_mb("VmHWM") - before_mb}))


def everything(path: Path, seconds: dict[str, float]) -> None:
    def stage(name: str, work: Callable[[], Any]) -> Any:
        begin = time.process_time()
        result = work()
        seconds[name] = time.process_time() - begin
        return result

    stage("parse", lambda: len(TraceJson(path, Losses())))
    capture = stage("import", lambda: pillion.import_trace(path))
    events = stage("tree", lambda: capture.function_events)
    stage("averages", lambda: events.key_averages().table(sort_by="self_cpu_time_total"))
    stage("total", events.total_average)
    stage("table", lambda: events.table(sort_by="self_cpu_time_total", row_limit=100))
    stage("export", lambda: capture.export_chrome_trace(path.with_name("out.json")))


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or [1_000_000, 2_000_000, 5_000_000, 10_000_000]
    print(f"{'CPU seconds':>11}" + "".join(f"{name:>10}" for name in (*_STAGES, "peak MB")), flush=True)
    first: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        for size in sizes:
            write_trace(path, size, INDENTED, _THREADS)
            child = subprocess.run(
                [sys.executable, __file__, "--measure", str(path)], check=True, stdout=subprocess.PIPE
            )
            found: dict[str, float] = json.loads(child.stdout)
            first = first or {name: value / size for name, value in found.items()}
            print(f"{size:>11,}" + "".join(f"{found[name]:>10.3f}" for name in _STAGES) + f"{found['peak']:>10.0f}")
            ratios = [found[name] / (first[name] * size) for name in (*_STAGES, "peak")]
            print(f"{'to linear':>11}" + "".join(f"{ratio:>10.2f}" for ratio in ratios), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]))
    else:
        main()
