"""Which interval directly encloses which: torch's rule, without a loop over events.

On one thread, intervals are taken by start, the longer first. The parent of one is the nearest before it that ends no
earlier and has not ended when it starts; what overlaps only partly does not nest, identical intervals nest in the order
in which they come.
"""

from __future__ import annotations

import numpy as np

from pillion._tables import Array

_CHUNK = 65_536  # rows that jump together: their columns stay in the processor's cache


def interval_parents(start: Array, end: Array, group: Array) -> Array:
    """The parent of each row, −1 for none; int32, O(n log n).

    Args:
        start, end: integers or floats of one unit.
        group: rows of different groups (threads) never nest.
    """
    order = _in_order(start, end, group)
    if order is None:
        return _parents_in_order(start, end, group)
    inner = _parents_in_order(start[order], end[order], group[order])
    parents = np.full(len(start), -1, np.int32)
    parents[order] = np.where(inner >= 0, order[inner], -1)
    return parents


def depths(parents: Array) -> Array:
    """How many ancestors each row has; int32."""
    depth = (parents >= 0).astype(np.int32)
    above = parents.copy()
    rows = np.flatnonzero(above >= 0)
    while len(rows):  # each round doubles the distance that a row looks up
        looked = above[rows]
        depth[rows] += depth[looked]
        above[rows] = above[looked]
        rows = rows[above[rows] >= 0]
    return depth


def _in_order(start: Array, end: Array, group: Array) -> Array | None:
    """The order by (group, start, −end), stable; None where the rows are in it."""
    if len(start) < 2:
        return None
    same_group, same_start = group[1:] == group[:-1], start[1:] == start[:-1]
    fits = (group[1:] > group[:-1]) | (same_group & ((start[1:] > start[:-1]) | (same_start & (end[1:] <= end[:-1]))))
    if fits.all():
        return None
    # −end of the greatest unsigned or of −2**63 would wrap; times are neither.
    return np.lexsort((-end, start, group)).astype(np.int32)


def _parents_in_order(start: Array, end: Array, group: Array) -> Array:
    """Nearest earlier row of the group whose end is not before this row's.

    Everything between a row and its candidate is known to end too early, so a row whose candidate ends too early goes
    on at the candidate's candidate. All rows jump at once, and the jumps grow.
    """
    count = len(start)
    parents = np.arange(-1, count - 1, dtype=np.int32)
    parents[np.flatnonzero(np.diff(group)) + 1] = -1
    beyond = end + 1 if end.dtype.kind in "iu" else np.nextafter(end, np.inf)
    least = np.where(end > start, end, beyond)  # what has no length is no child of what ends where it is
    for begin in range(0, count, _CHUNK):
        block = parents[begin : begin + _CHUNK]
        _jump(parents, end, least, (np.flatnonzero(block >= 0) + begin).astype(np.int32))
    return parents


def _jump(parents: Array, end: Array, least: Array, pending: Array) -> None:
    """Settles the parents of some rows, those of all rows before them being settled."""
    while len(pending):
        candidate = parents[pending]
        short = end[candidate] < least[pending]
        pending, candidate = pending[short], candidate[short]
        following = parents[candidate]
        parents[pending] = following
        pending = pending[following >= 0]
