"""A Kineto trace of a million events from file to built tree: seconds, and the peak of memory beyond the imports.

python tests/bench/import_kineto.py [EVENTS …]     each number in a process of its own; 10000000 needs 3 GB of disk

Both layouts are measured: indented as Kineto writes it (266 bytes an event), and compact (121 bytes).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pillion.importers import import_trace

_NAMES = ("step", "aten::matmul", "aten::mm", "aten::resolve_conj", "aten::relu", "aten::clamp_min", "aten::sum")
_CHUNK = 100_000

INDENTED = """
  {
    "ph": "X",
    "cat": "%s",
    "name": "%s",
    "pid": 26309,
    "tid": %d,
    "ts": %.3f,
    "dur": %.3f
    ,
    "args": {
      "External id": %d,"Record function id": 0, "Ev Idx": %d
    }
  }"""
_COMPACT = (
    '{"ph":"X","cat":"%s","name":"%s","pid":26309,"tid":%d,"ts":%.3f,"dur":%.3f,"args":{"External id":%d,"Ev Idx":%d}}'
)


def write_trace(path: Path, events: int, template: str, threads: int = 1) -> None:
    """A step, and in it operators that nest in pairs, again and again; the threads take turns."""
    per_step = len(_NAMES)
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "baseTimeNanoseconds": 1790857026000000000, "traceEvents": [')
        for begin in range(0, events, _CHUNK):
            rows = []
            for number in range(begin, min(begin + _CHUNK, events)):
                step, place = divmod(number, per_step)
                start = 5_163_166_616_528.0 + step * 100 + (place + 1) // 2 * 10 + (place + 1) % 2 * 2
                duration = 90.0 if place == 0 else 8.125 if place % 2 else 5.5
                category = "cpu_op" if place else "user_annotation"
                rows.append(
                    template % (category, _NAMES[place], 26309 + step % threads, start, duration, number + 1, number)
                )
            file.write(("," if begin else "") + ",".join(rows))
        file.write("]}")


def memory_mb(key: str) -> float:
    """VmRSS, or VmHWM: the peak since it was last cleared."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024


def measure(path: Path) -> None:
    """One line: what an import takes, the first of the process and the best of five (of two, where it is large)."""
    Path("/proc/self/clear_refs").write_text("5")  # a process begins with its parent's peak
    before_mb = memory_mb("VmRSS")
    seconds = []
    for _ in range(5 if path.stat().st_size < 1e9 else 2):
        begin = time.perf_counter()
        capture = import_trace(path)
        seconds.append(time.perf_counter() - begin)
        if len(seconds) == 1:
            extra_mb = memory_mb("VmHWM") - before_mb
        events = capture.columns["events"]
        nested = int((events["parent"] >= 0).sum())
        count = len(events["id"])
        del capture, events
    times = f"first {seconds[0]:6.2f} s   best {min(seconds):6.2f} s   {min(seconds) / count * 1e6:5.2f} us an event"
    size_mb = path.stat().st_size / 1e6
    print(f"{count:>11,} events {size_mb:7.0f} MB   {times}   peak +{extra_mb:5.0f} MB   {nested:,} nested", flush=True)


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or [100_000, 300_000, 1_000_000]
    with tempfile.TemporaryDirectory() as folder:
        for label, template in (("indented", INDENTED), ("compact", _COMPACT)):
            print(label, flush=True)
            for size in sizes:
                path = Path(folder) / "trace.json"
                write_trace(path, size, template)
                subprocess.run([sys.executable, __file__, "--measure", str(path)], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]))
    else:
        main()
