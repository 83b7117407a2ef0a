"""What a range costs, next to an empty ``with`` and torch's own record_function: nanoseconds each.

Rounds of the cases are interleaved, so that a change of the machine's speed hits all of them; the figure is the median
of the rounds. Recording goes into rings that a drain thread of the process empties into a memfd.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable

from pillion._native import ffi, lib
from pillion._range import _Range

ROUNDS = 15
REPEATS = 10_000  # less than a ring holds


class _Subclass(_Range):
    __slots__ = ()


def _with_each(make: Callable[[str], contextlib.AbstractContextManager[object]]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(REPEATS):
            with make("step"):
                pass

    return run


def _loop() -> None:
    for _ in range(REPEATS):
        pass


def _ns_each(run: Callable[[], None]) -> float:
    start_ns = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - start_ns) / REPEATS


def _measure(cases: dict[str, Callable[[], None]]) -> dict[str, float]:
    rounds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, run in cases.items():
            rounds[name].append(_ns_each(run))
    return {name: statistics.median(times) for name, times in rounds.items()}


def _record() -> Callable[[], tuple[int, int]]:
    """Starts a session; what it returns ends it and tells (delivered, lost)."""
    spool_fd = os.memfd_create("spool")
    if lib.pln_self_start(spool_fd) != 0:
        raise SystemExit("this process is being recorded already")

    def stop() -> tuple[int, int]:
        sink = ffi.new("struct pln_sink *")
        losses = ffi.new("struct pln_loss[64]")
        count = lib.pln_self_stop(sink, losses, len(losses))
        os.close(spool_fd)
        return sink.records, sum(loss.count for loss in losses[0:count])

    return stop


def main() -> None:
    with _Range("warm up"):
        pass
    cases = {
        "empty loop": _loop,
        "contextlib.nullcontext": _with_each(contextlib.nullcontext),
        "_Range": _with_each(_Range),
        "subclass of _Range": _with_each(_Subclass),
    }
    with contextlib.suppress(ImportError):
        import torch

        cases["torch record_function"] = _with_each(torch.autograd.profiler.record_function)
    idle = _measure(cases)
    stop = _record()
    recording = _measure(cases)
    delivered, lost = stop()
    print(f"{'ns each, loop included':<26}{'idle':>10}{'recording':>12}")
    for name in cases:
        print(f"{name:<26}{idle[name]:>10.0f}{recording[name]:>12.0f}")
    print(f"delivered {delivered}, lost {lost}")


if __name__ == "__main__":
    main()
