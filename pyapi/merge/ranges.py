"""Finds ranges: by their names, by the moments at which they were open.

A range is named by (region, tid, seq). All of it is numpy over columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pillion._tables import Array, Columns
from pillion.merge.records import pack


@dataclass(frozen=True)
class Ranges:
    """Finds the events row of a range by its name (region, tid, seq).

    Attributes:
        threads: (region << 32 | tid), ascending, each once.
        keys: (place in ``threads`` << 32 | seq), ascending.
        rows: the events row of each key.
    """

    threads: Array
    keys: Array
    rows: Array

    @classmethod
    def index(cls, region: Array, tid: Array, seq: Array) -> Ranges:
        """An index over all events; their rows are their places."""
        packed = pack(region, tid)
        # Sorted events are few runs, one a thread.
        starts = np.flatnonzero(np.diff(packed, prepend=~packed[:1]))
        threads, run_thread = np.unique(packed[starts], return_inverse=True)
        keys = pack(np.repeat(run_thread, np.diff(starts, append=len(packed))), seq)
        rows = np.argsort(keys, kind="stable")
        return cls(threads, keys[rows], rows)

    def find(self, region: Array, tid: Array, seq: Array) -> Array:
        """Rows of these ranges, −1 where there is none: seq 0 names none."""
        if not len(self.keys):
            return np.full(len(seq), -1)
        wanted = pack(region, tid)
        thread = np.minimum(np.searchsorted(self.threads, wanted), len(self.threads) - 1)
        key = pack(thread, seq)
        # The last of equal keys: a thread id that is used again counts anew.
        place = np.maximum(np.searchsorted(self.keys, key, side="right") - 1, 0)
        found = (self.threads[thread] == wanted) & (self.keys[place] == key) & (seq > 0)
        return np.where(found, self.rows[place], -1)


def enclosing(events: Columns, pid: Array, tid: Array, at_ns: Array) -> Array:
    """The row of the innermost range of a thread that was open at each moment, −1 for none."""
    event = np.full(len(at_ns), -1)
    if not (len(at_ns) and len(events["id"])):
        return event
    begins, ends, threads = _threads(events)
    wanted = pack(pid, tid)
    order = np.argsort(wanted, kind="stable")
    asked = np.flatnonzero(np.diff(wanted[order], prepend=~wanted[order[:1]]))
    for rows in np.split(order, asked[1:]):
        thread = int(np.searchsorted(threads, wanted[rows[0]]))
        if thread == len(threads) or threads[thread] != wanted[rows[0]]:
            continue
        # Events of a thread come by start, and the last one that began is the innermost or lies in it, ended.
        begin = begins[thread]
        last = begin + np.searchsorted(events["start_ns"][begin : ends[thread]], at_ns[rows], side="right") - 1
        event[rows] = np.where(last >= begin, last, -1)
    while len(over := np.flatnonzero((event >= 0) & (events["end_ns"][event] <= at_ns))):
        event[over] = events["parent"][event[over]]  # climbs by depth, so it ends
    return event


def _threads(events: Columns) -> tuple[Array, Array, Array]:
    """The first row of each thread and that behind its last, and the threads, (pid << 32 | tid), ascending."""
    pid, tid = events["pid"], events["tid"]
    changes = (pid[1:] != pid[:-1]) | (tid[1:] != tid[:-1])
    begins = np.concatenate([[0], np.flatnonzero(changes) + 1])
    return begins, np.append(begins[1:], len(pid)), pack(pid[begins], tid[begins])


def region_at(pid: Array, ts_ns: Array, regions: list[tuple[int, int, int]]) -> Array:
    """The region that each pid had at each time, −1 for none: the last one that had started.

    Regions and moments are sorted together by pid and time; each moment takes the region that precedes it.

    Args:
        regions: (region, pid, start_ns) of each.
    """
    number, region_pid, region_start = np.array(regions, np.int64).reshape(-1, 3).T
    count = len(number)
    all_pid = np.concatenate([region_pid, pid])
    is_moment = np.arange(len(all_pid)) >= count
    order = np.lexsort((is_moment, np.concatenate([region_start, ts_ns]), all_pid))
    preceding = np.maximum.accumulate(np.where(is_moment[order], -1, np.arange(len(order))))
    source = order[np.maximum(preceding, 0)]
    fits = (preceding >= 0) & (all_pid[source] == all_pid[order])
    found = np.full(len(all_pid), -1)
    found[order[fits]] = number[source[fits]]
    return found[count:]
