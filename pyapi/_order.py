"""The order of intervals: (group, start, −end, what tells equal ones apart), stable.

Traces come nearly in order: each thread's events by start, or all of them by start. A sort that makes use of runs, and
one by digits for threads, then cost time in proportion to the rows; a sort by one key after the other begins with the
ends, and so takes all order away first.
"""

from __future__ import annotations

import numpy as np

from pillion._tables import Array

_DIGIT_BITS = 16  # of so many bits numpy sorts by counting


def time_order(start: Array, end: Array, group: Array | None = None, tie: Array | None = None) -> Array | None:
    """The rows by (start, −end), within their group where there are groups; None where they are in that order.

    Args:
        start, end: int64.
        group: integers, ordered as unsigned ones of 64 bits.
        tie: integers by which equal intervals of a group come; without them they stay as they come.
    """
    group = None if group is None else group.astype(np.uint64, copy=False)
    if _is_ordered(start, end, group, tie):
        return None
    order = np.argsort(start, kind="stable")
    order = _ties_in_order(order, start, end, tie)
    return order if group is None else _by_group(order, group)


def start_order(start: Array) -> Array | None:
    """The rows by start, stable; None where they are in that order."""
    return None if (start[1:] >= start[:-1]).all() else np.argsort(start, kind="stable")


def _is_ordered(start: Array, end: Array, group: Array | None, tie: Array | None) -> bool:
    follows = start[1:] > start[:-1]
    equal = start[1:] == start[:-1]
    if tie is None:
        follows |= equal & (end[1:] <= end[:-1])
    else:
        follows |= equal & ((end[1:] < end[:-1]) | ((end[1:] == end[:-1]) & (tie[1:] >= tie[:-1])))
    if group is not None:
        follows &= group[1:] == group[:-1]
        follows |= group[1:] > group[:-1]
    return bool(follows.all())


def _ties_in_order(order: Array, start: Array, end: Array, tie: Array | None) -> Array:
    """Rows by start, those of equal start by −end, then by what tells ties apart; only these are sorted again."""
    begins = start[order]
    second = np.flatnonzero(begins[1:] == begins[:-1]) + 1
    before, after = order[second - 1], order[second]
    is_wrong = end[after] > end[before]
    if tie is not None:
        is_wrong |= (end[after] == end[before]) & (tie[after] < tie[before])
    if not is_wrong.any():
        return order
    places = np.union1d(second - 1, second)
    tied = order[places]
    keys = (~end[tied], start[tied])  # ~: as −, but never too great
    order[places] = tied[np.lexsort(keys if tie is None else (tie[tied], *keys))]
    return order


def _by_group(order: Array, group: Array) -> Array:
    """Rows by group, in their order within each, a digit after the other."""
    for shift in range(0, 64, _DIGIT_BITS):
        digit = (group >> np.uint64(shift)).astype(np.uint16)
        if len(digit) and (digit != digit[0]).any():
            order = order[np.argsort(digit[order], kind="stable")]
    return order
