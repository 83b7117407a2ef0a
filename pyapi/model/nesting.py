"""Which interval directly encloses which: torch's rule.

On one thread, intervals are taken by start, the longer first. The parent of one is the nearest before it that ends no
earlier and has not ended when it starts; what overlaps only partly does not nest, identical intervals nest in the order
in which they come.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion._native import ffi, lib
from pillion._order import time_order
from pillion._tables import Array


def interval_parents(start: Array, end: Array, group: Array) -> Array:
    """The parent of each row, −1 for none; int32. Linear in the rows where these come in order.

    Args:
        start, end: integers or floats of one unit.
        group: rows of different groups (threads) never nest.
    """
    if start.dtype.kind == "f":
        start, end = np.unique(np.concatenate([start, end]), return_inverse=True)[1].reshape(2, -1)
    start, end, group = _contiguous(start, "i8"), _contiguous(end, "i8"), _contiguous(group, "u8")
    parents = np.empty(len(start), np.int32)
    columns = (_pointer("int64_t[]", start), _pointer("int64_t[]", end), _pointer("uint64_t[]", group))
    if not lib.pln_nest(*columns, ffi.NULL, len(parents), _pointer("int32_t[]", parents)):
        order = time_order(start, end, group)
        assert order is not None  # or the rows would have been in order
        places = _pointer("int32_t[]", order.astype(np.int32))
        lib.pln_nest(*columns, places, len(parents), _pointer("int32_t[]", parents))
    return parents


def nested_among(mask: Array, start: Array, end: Array, group: Array) -> Array:
    """The same of the rows of a mask; all others have no parent, and are none."""
    if mask.all():
        return interval_parents(start, end, group)
    rows = np.flatnonzero(mask).astype(np.int32)
    inner = interval_parents(start[rows], end[rows], group[rows])
    parents = np.full(len(mask), -1, np.int32)
    parents[rows] = np.where(inner >= 0, rows[inner], -1)
    return parents


def depths(parents: Array) -> Array:
    """How many ancestors each row has; int32.

    Raises:
        ValueError: a parent is no row, or its own ancestor.
    """
    parents = _contiguous(parents, "i4")
    depth = np.empty(len(parents), np.int32)
    if not lib.pln_depths(_pointer("int32_t[]", parents), len(parents), _pointer("int32_t[]", depth)):
        raise ValueError("the parents of rows are no tree")
    return depth


def _contiguous(values: Array, kind: str) -> Array:
    return np.ascontiguousarray(values.astype(kind, copy=False))


def _pointer(kind: str, values: Array) -> Any:
    return ffi.from_buffer(kind, values)
