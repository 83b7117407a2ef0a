"""What recording an operator of torch costs, next to torch's own profiler: ns each, paired within a round."""

from __future__ import annotations

import os
import statistics
import time

os.environ["KINETO_LOG_LEVEL"] = "6"

from pillion._native import ffi, lib

ROUNDS = 15
OPERATORS = 20_000


def main() -> None:
    try:
        import torch
    except ImportError:
        raise SystemExit("skipped: needs torch") from None
    torch.set_num_threads(1)
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so").encode()
    value = torch.ones(1)

    def each_ns() -> float:
        start = time.perf_counter_ns()
        for _ in range(OPERATORS):
            value.add_(value)
        return (time.perf_counter_ns() - start) / OPERATORS

    def ours_ns() -> float:
        spool = os.memfd_create("spool")
        missing = ffi.new("char const **")
        assert lib.pln_self_start(spool) == 0
        assert lib.pln_torch_start(path, missing) == 0
        try:
            return each_ns()
        finally:
            lib.pln_self_stop(ffi.new("struct pln_sink *"), ffi.NULL, 0)
            os.close(spool)

    def torchs_ns() -> float:
        with torch.autograd.profiler.profile():
            return each_ns()

    each_ns()
    differences: dict[str, list[float]] = {"pillion": [], "torch.autograd.profiler": []}
    for _ in range(ROUNDS):
        base = each_ns()
        differences["pillion"].append(ours_ns() - base)
        differences["torch.autograd.profiler"].append(torchs_ns() - base)
    for name, values in differences.items():
        print(f"an operator recorded by {name:<25}{statistics.median(values):>6.0f} ns")


if __name__ == "__main__":
    main()
