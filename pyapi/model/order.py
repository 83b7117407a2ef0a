"""The order of intervals: (group, start, −end), stable.

Traces come nearly in order: each thread's events by start, or all of them by start. A sort that makes use of runs, and
one by digits for threads, then cost time in proportion to the rows; a sort by one key after the other begins with the
ends, and so takes all order away first.
"""

from __future__ import annotations

import numpy as np

from pillion._tables import Array

_DIGIT_BITS = 16  # of so many bits numpy sorts by counting


def time_order(start: Array, end: Array, group: Array | None = None) -> Array | None:
    """The rows by (start, −end), within their group where there are groups; None where they are in that order.

    Args:
        start, end: int64.
        group: integers, ordered as unsigned ones of 64 bits.
    """
    group = None if group is None else group.astype(np.uint64, copy=False)
    if _is_ordered(start, end, group):
        return None
    order: Array = np.argsort(start, kind="stable")
    order = _longer_first(order, start, end)
    return order if group is None else _by_group(order, group)


def _is_ordered(start: Array, end: Array, group: Array | None) -> bool:
    follows = start[1:] > start[:-1]
    follows |= (start[1:] == start[:-1]) & (end[1:] <= end[:-1])
    if group is not None:
        follows &= group[1:] == group[:-1]
        follows |= group[1:] > group[:-1]
    return bool(follows.all())


def _longer_first(order: Array, start: Array, end: Array) -> Array:
    """Rows by start, those of equal start by −end; only these are sorted again."""
    begins = start[order]
    second = np.flatnonzero(begins[1:] == begins[:-1]) + 1
    if not np.any(end[order[second]] > end[order[second - 1]]):
        return order
    places = np.union1d(second - 1, second)
    tied = order[places]
    order[places] = tied[np.lexsort((~end[tied], start[tied]))]  # ~: as −, but never too great
    return order


def _by_group(order: Array, group: Array) -> Array:
    """Rows by group, in their order within each, a digit after the other."""
    for shift in range(0, 64, _DIGIT_BITS):
        digit = (group >> np.uint64(shift)).astype(np.uint16)
        if len(digit) and (digit != digit[0]).any():
            order = order[np.argsort(digit[order], kind="stable")]
    return order
