"""Slices on tracks that must nest."""

from __future__ import annotations

import heapq

import numpy as np

from pillion._tables import Array
from pillion.model.nesting import interval_parents


def lanes(track: Array, start: Array, end: Array) -> Array:
    """For each slice 0 if it nests with the others of its track that are in lane 0, else the number of another lane.

    Lane 0 takes each slice, by start and the longer first, that lies in the innermost open one or starts when that has
    ended. The other lanes are as few as can be without a slice in another.
    """
    lane = np.zeros(len(track), np.int32)
    crowded = np.flatnonzero(np.isin(track, _crowded(track, start, end)))
    order = crowded[np.lexsort((-end[crowded], start[crowded], track[crowded]))]
    current = None
    open_ends: list[int] = []
    free: list[tuple[int, int]] = []  # a heap of (end, lane)
    rows = zip(order.tolist(), track[order].tolist(), start[order].tolist(), end[order].tolist())
    for row, of, begins, ends in rows:
        if of != current:
            current, open_ends, free = of, [], []
        while open_ends and open_ends[-1] <= begins:
            open_ends.pop()
        if not open_ends or ends <= open_ends[-1]:
            open_ends.append(ends)
        elif free and free[0][0] <= begins:
            lane[row] = free[0][1]
            heapq.heapreplace(free, (ends, free[0][1]))
        else:
            lane[row] = len(free) + 1
            heapq.heappush(free, (ends, len(free) + 1))
    return lane


def _crowded(track: Array, start: Array, end: Array) -> Array:
    """The tracks on which slices overlap without nesting: there, some neighbours within one parent overlap."""
    parent = interval_parents(start, end, track)
    order = np.lexsort((-end, start, parent, track))
    before, after = order[:-1], order[1:]
    beside = (parent[before] == parent[after]) & (track[before] == track[after])
    return np.unique(track[after[beside & (end[before] > start[after])]])


def brackets(track: Array, start: Array, end: Array) -> tuple[Array, Array]:
    """The beginnings and ends of slices that nest, track by track, in the order in which they open and close.

    Returns:
        For each point the row of its slice, and whether it is an end.
    """
    count = len(track)
    place = np.empty(count, np.int64)
    place[np.lexsort((-end, start, track))] = np.arange(count)
    is_empty = start == end
    # Of one moment ends come first, the last opened first; then what begins, and what is empty at once ends.
    opens = 2 * place
    closes = np.where(is_empty, 2 * place + 1, -1 - place)
    order = np.lexsort((np.concatenate([opens, closes]), np.concatenate([start, end]), np.concatenate([track, track])))
    return order % max(count, 1), order >= count
