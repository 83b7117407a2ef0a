"""The times of records are CLOCK_MONOTONIC, whatever they were read from."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from pillion._range import _Range

# Longer than the counter's rate is taken over, so that it is taken anew.
SPAN_NS = 1_300_000_000
# Counter and clock are compared every millisecond, to some 10 ns.
APART_NS = 2_000


def test_a_range_lies_between_what_the_clock_says_before_and_after(recording: Any) -> None:
    bounds = []
    first_ns = now_ns = time.monotonic_ns()
    while now_ns - first_ns < SPAN_NS:
        before_ns = now_ns
        with _Range("step"):
            pass
        now_ns = time.monotonic_ns()
        bounds.append((before_ns, now_ns))
        if len(bounds) % 1000 == 0:
            recording.drain()
    recording.end()
    steps = recording.spool.records()
    before, after = np.array(bounds, np.int64).T
    assert len(steps) == len(bounds)
    too_early = before - steps["start_ns"].astype(np.int64)
    too_late = steps["end_ns"].astype(np.int64) - after
    assert max(too_early.max(), too_late.max()) < APART_NS


def test_times_of_a_thread_never_go_back(recording: Any) -> None:
    def work() -> None:
        for _ in range(50_021):
            with _Range("step"):
                pass

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        recording.drain()
    recording.end()
    records = recording.spool.records()
    for tid in {int(tid) for tid in records["tid"]}:
        of_thread = records[records["tid"] == tid]
        times = np.stack([of_thread["start_ns"], of_thread["end_ns"]], axis=1).ravel().astype(np.int64)
        assert (np.diff(times) >= 0).all()
