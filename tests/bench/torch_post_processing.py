"""What torch recorded, through torch's post-processor and through ours, in one run: seconds and extra peak memory.

usage: torch_post_processing.py [EVENTS] [plain|shapes|mem|full] [--ours]

--ours leaves torch's post-processor out, which takes minutes and gigabytes for millions of events.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["KINETO_LOG_LEVEL"] = "6"
import torch
from torch.autograd import profiler as theirs

from pillion import profiler as ours

_MODES: dict[str, dict[str, bool]] = {
    "plain": {},
    "mem": {"profile_memory": True},
    "shapes": {"record_shapes": True},
    "full": {"record_shapes": True, "profile_memory": True, "with_stack": True},
}
_A, _B = torch.randn(4, 4), torch.randn(4, 4)


def step() -> None:
    with theirs.record_function("step"):
        torch.matmul(_A, _B).relu().sum()


def memory_mb(key: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


def measure(label: str, work: Callable[[], Any]) -> Any:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = memory_mb("VmRSS")
    begin = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - begin
    print(f"{label:42}{seconds:9.3f} s   +{memory_mb('VmHWM') - before:6.0f} MB", flush=True)
    return result


def run(name: str, module: Any, count: int, options: dict[str, bool], folder: str) -> None:
    prof = module.profile(**options)
    with prof:
        begin = time.perf_counter()
        for _ in range(count):
            step()
        took = time.perf_counter() - begin
    print(f"{name}: {count} steps in {took:.2f} s")
    events = measure(f"{name}: result to tree", lambda: prof.function_events)
    print(f"{name}: {len(events)} events")
    measure(f"{name}: key_averages().table()", lambda: prof.key_averages().table(sort_by="self_cpu_time_total"))
    measure(f"{name}: total_average()", prof.total_average)
    measure(f"{name}: table(row_limit=100)", lambda: events.table(sort_by="self_cpu_time_total", row_limit=100))
    measure(f"{name}: export_chrome_trace", lambda: prof.export_chrome_trace(f"{folder}/{name}.json"))


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    wanted = int(arguments[0]) if arguments else 200_000
    options = _MODES[arguments[1] if len(arguments) > 1 else "plain"]
    torch.set_num_threads(1)
    with theirs.profile(**options) as prof:
        for _ in range(50):
            step()
    count = max(1, wanted * 50 // len(prof.kineto_results.events()))
    del prof
    with tempfile.TemporaryDirectory() as folder:
        run("ours", ours, count, options, folder)
        gc.collect()
        if "--ours" not in sys.argv:
            run("torch", theirs, count, options, folder)


if __name__ == "__main__":
    main()
