"""What recording an operator of torch costs, next to torch's own profiler and to callbacks that do nothing: ns each.

Short batches take turns, and of each kind the 20th percentile counts: other work on the machine only adds. The first
131,072 records of a thread also pay for the pages of its ring: they have a line of their own.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

os.environ["KINETO_LOG_LEVEL"] = "6"

import numpy as np

from pillion._native import ffi, lib

ROUNDS = 15
BATCHES = 20
OPERATORS = 1_000
RING_RECORDS = 131_072


@contextmanager
def recorded() -> Iterator[None]:
    spool = os.memfd_create("spool")
    assert lib.pln_self_start(spool) == 0
    yield
    lib.pln_self_stop(ffi.new("struct pln_sink *"), ffi.NULL, 0)
    os.close(spool)


@contextmanager
def called_back(library: Any, path: bytes) -> Iterator[None]:
    library.begin(path)
    yield
    library.finish()


def empty_callbacks(directory: str) -> Any:
    library = Path(directory, "empty_callback.so")
    source = Path(__file__).with_name("empty_callback.c")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return ctypes.CDLL(str(library))


def main() -> None:
    try:
        import torch
    except ImportError:
        raise SystemExit("skipped: needs torch") from None
    torch.set_num_threads(1)
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so").encode()
    value = torch.ones(1)

    def batches(count: int = BATCHES) -> list[float]:
        each_ns = []
        for _ in range(count):
            start = time.perf_counter_ns()
            for _ in range(OPERATORS):
                value.add_(value)
            each_ns.append((time.perf_counter_ns() - start) / OPERATORS)
        return each_ns

    times: dict[str, list[float]] = {"before": batches()}
    times["before"] = [each for _ in range(ROUNDS) for each in batches()]
    assert lib.pln_torch_start(path, ffi.new("char const **")) == 0
    with recorded():
        first = batches(RING_RECORDS // OPERATORS + 1)
    with tempfile.TemporaryDirectory() as directory:
        empty = empty_callbacks(directory)
        kinds = {
            "not recorded": nullcontext,
            "callbacks that do nothing": lambda: called_back(empty, path),
            "recorded by pillion": recorded,
            "recorded by torch.autograd.profiler": torch.autograd.profiler.profile,
        }
        for _ in range(ROUNDS):
            for name, kind in kinds.items():
                with kind():
                    times.setdefault(name, []).extend(batches())
    low = {name: float(np.percentile(values, 20)) for name, values in times.items()}
    print(f"an operator, {'not recorded':<37}{low['not recorded']:>6.0f} ns, dormant against never asked for: ", end="")
    print(f"{low['not recorded'] - low['before']:+.0f} ns")
    for name in list(kinds)[1:]:
        print(f"an operator, {name:<37}{low[name] - low['not recorded']:>+6.0f} ns")
    name = "of a thread's first 131,072"
    print(f"an operator, {name:<37}{float(np.percentile(first, 20)) - low['not recorded']:>+6.0f} ns")


if __name__ == "__main__":
    main()
