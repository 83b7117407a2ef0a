"""MemRecordsAcc: which allocations fell into an interval."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from pillion._tables import Array

MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME = "[memory]", "[OutOfMemory]"


class MemRecordsAcc:
    """Finds allocation records by time.

    Args:
        mem_records: ``[event, flag]`` pairs; ``event.start_ns()`` is when it happened, in nanoseconds.
    """

    def __init__(self, mem_records: Sequence[Any]) -> None:
        # Ties keep the order in which they came.
        self._records = sorted(((record[0].start_ns(), record) for record in mem_records), key=itemgetter(0))
        self._times_ns = [time_ns for time_ns, _ in self._records]

    def in_interval(self, start_ns: float, end_ns: float) -> Iterator[Any]:
        """The pairs from ``start_ns`` to ``end_ns``, both included, by time."""
        for place in range(bisect_left(self._times_ns, start_ns), bisect_right(self._times_ns, end_ns)):
            yield self._records[place][1]


def sums_in_intervals(start: Array, end: Array, time: Array, size: Array) -> Array:
    """For each closed interval the sum of the sizes whose times fall into it; int64."""
    order = np.argsort(time, kind="stable")
    until = np.concatenate([[0], np.cumsum(size[order])])
    time = time[order]
    inside: Array = until[np.searchsorted(time, end, "right")] - until[np.searchsorted(time, start, "left")]
    return inside


def in_any_interval(start: Array, end: Array, time: Array) -> Array:
    """Mask of the times that fall into at least one of the closed intervals."""
    begun = np.searchsorted(np.sort(start), time, "right")
    ended = np.searchsorted(np.sort(end), time, "left")
    inside: Array = begun > ended
    return inside
