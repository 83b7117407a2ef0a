"""Runs additions of torch in two recordings of the process by itself, and some in no recording.

Arguments: --starved: the thread that looks after what records hardly gets a CPU.
Answer: {"counts"}: of additions recorded in each.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import handshake

os.environ["KINETO_LOG_LEVEL"] = "6"
import torch

import pillion
from pillion._native import ffi, lib

NAME = "aten::add_"


def recorded(additions: int) -> int:
    with pillion.profile() as profile:
        add(additions)
    names = profile.capture.columns["strings"]["text"]
    return sum(names[row] == NAME for row in profile.capture.columns["events"]["name"].tolist())


def add(additions: int) -> None:
    value = torch.ones(1)
    for _ in range(additions):
        value.add_(value)


@contextmanager
def starved(name: str) -> Iterator[None]:
    """While another process uses the CPU that the thread of this name may have what is left of."""
    first, *others = sorted(os.sched_getaffinity(0))
    threads: list[int] = []
    while not threads:  # it names itself
        threads = [
            int(task.name) for task in Path("/proc/self/task").iterdir() if (task / "comm").read_text() == name + "\n"
        ]
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE
    ) as other:
        os.sched_setaffinity(other.pid, {first})
        assert other.stdout is not None
        other.stdout.readline()
        os.sched_setaffinity(threads[0], {first})
        os.sched_setscheduler(threads[0], os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(0, others or {first})
        yield
        other.kill()


def main() -> None:
    parser = handshake.parser(__doc__)
    parser.add_argument("--starved", action="store_true")
    args = parser.parse_args()
    handshake.ready(args)
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so").encode()
    assert lib.pln_torch_start(path, ffi.new("char const **")) == 0
    with starved("pillion") if args.starved else nullcontext():
        first = recorded(11)
        add(3)
        handshake.answer(counts=[first, recorded(7)])


if __name__ == "__main__":
    main()
