"""Which interval directly encloses which: torch's rule.

On one thread, intervals are taken by start, the longer first. The parent of one is the nearest before it that ends no
earlier and has not ended when it starts; what overlaps only partly does not nest, identical intervals nest in the order
in which they come.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion._native import ffi, lib
from pillion._tables import Array
from pillion.model.order import time_order


def interval_parents(start: Array, end: Array, group: Array) -> Array:
    """The parent of each row, −1 for none; int32. Linear in the rows where these come in order.

    Args:
        start, end: integers or floats of one unit.
        group: rows of different groups (threads) never nest.
    """
    if start.dtype.kind == "f":
        start, end = np.unique(np.concatenate([start, end]), return_inverse=True)[1].reshape(2, -1)
    columns = [np.ascontiguousarray(column).astype(kind, copy=False) for column, kind in ((start, "i8"), (end, "i8"))]
    columns.append(np.ascontiguousarray(group).astype("u8", copy=False))
    if not _nest(columns, None, parents := np.empty(len(start), np.int32)):
        _nest(columns, time_order(*columns), parents)
    return parents


def _nest(columns: list[Array], order: Array | None, parents: Array) -> bool:
    start, end, group = (_pointer(kind, column) for kind, column in zip(("int64_t[]",) * 2 + ("uint64_t[]",), columns))
    places = ffi.NULL if order is None else _pointer("int32_t[]", order.astype(np.int32))
    return bool(lib.pln_nest(start, end, group, places, len(parents), _pointer("int32_t[]", parents)))


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
    parents = np.ascontiguousarray(parents, np.int32)
    depth = np.empty(len(parents), np.int32)
    if not lib.pln_depths(_pointer("int32_t[]", parents), len(parents), _pointer("int32_t[]", depth)):
        raise ValueError("the parents of rows are no tree")
    return depth


def _pointer(kind: str, values: Array) -> Any:
    return ffi.from_buffer(kind, values)
