"""A million events of a Kineto file through everything: seconds of each step, and the peak of memory of it all.

python tests/bench/kineto_1m.py [EVENTS]     in a process of its own, whose imports are not counted
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from import_kineto import INDENTED, memory_mb, write_trace

import pillion


def measure(path: Path) -> None:
    small = path.with_name("small.json")  # loads what every process has to load
    write_trace(small, 70, INDENTED)
    pillion.import_trace(small).function_events.table()
    Path("/proc/self/clear_refs").write_text("5")  # a process begins with its parent's peak
    before_mb = memory_mb("VmRSS")

    def step(name: str, work: Callable[[], object]) -> None:
        begin = time.perf_counter()
        work()
        seconds = time.perf_counter() - begin
        print(f"{name:<34}{seconds:>7.3f} s   peak +{memory_mb('VmHWM') - before_mb:>5.0f} MB", flush=True)

    found: list[pillion.Capture] = []
    step("from the file to a built tree", lambda: found.append(pillion.import_trace(path)))
    capture = found[0]
    events = capture.function_events
    step("key_averages().table()", lambda: events.key_averages().table(sort_by="self_cpu_time_total"))
    step("total_average()", events.total_average)
    step("table(row_limit=100)", lambda: events.table(sort_by="self_cpu_time_total", row_limit=100))
    step("export_chrome_trace()", lambda: capture.export_chrome_trace(path.with_name("out.json")))


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        write_trace(path, events, INDENTED)
        print(f"{events:,} events, {path.stat().st_size / 1e6:.0f} MB")
        subprocess.run([sys.executable, __file__, "--measure", str(path)], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]))
    else:
        main()
