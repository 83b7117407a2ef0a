"""The tree of ranges and what belongs to each: wall time, samples, waits. All of it is numpy over columns.

A row is a row of the events table. ``parent`` there says which range was innermost when another began, exactly and on
one thread. Times of a row are either its own ("self": while it was the innermost) or include its descendants ("total").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pillion._native import ffi, lib
from pillion._tables import Array, Columns, Tables, length
from pillion_probes.layout import CONSTANTS

_LARGEST = float(2**63 - 2**10)  # that fits into 64 bits


def sums(rows: Array, weights: Array, count: int) -> Array:
    """int64 of length ``count``: the sum of the weights at each row; rows of −1 are left out.

    Exact below 2**53; what is too great is as great as can be.
    """
    return np.clip(float_sums(rows, weights, count), -_LARGEST, _LARGEST).astype(np.int64)


def float_sums(rows: Array, weights: Array, count: int) -> Array:
    """The same in floats, added in the order of the rows."""
    summed = np.zeros(count)
    native_rows, values = np.ascontiguousarray(rows, np.int32), np.ascontiguousarray(weights, np.float64)
    pointers = ffi.from_buffer("int32_t[]", native_rows), ffi.from_buffer("double[]", values)
    if not lib.pln_add_at(*pointers, len(rows), ffi.from_buffer("double[]", summed), count):
        raise IndexError(f"a row is beyond {count}")
    return summed


def is_nothing(values: Array) -> bool:
    """Whether a column is one 0, repeated without memory: what a capture that lacks the column has."""
    return values.strides == (0,) and not values[:1].any()


def is_async(events: Columns) -> Array:
    """Ranges that ended on another thread than they began on."""
    ended_elsewhere: Array = (events["flags"] & CONSTANTS["PLN_ASYNC"] != 0) | (events["end_tid"] != events["tid"])
    return ended_elsewhere


def nested_parents(events: Columns, hidden: Array) -> Array:
    """The parent of each row as torch nests: the nearest visible ancestor whose interval holds the row's.

    A range that ended on another thread has neither parent nor children. −1 for none, and for hidden rows.
    """
    start, end, above = events["start_ns"], events["end_ns"], events["parent"]
    usable = ~hidden & ~is_async(events)
    parents = np.full(len(above), -1)
    rows = np.flatnonzero(usable & (above >= 0))
    candidate = above[rows]
    while len(rows):
        holds = usable[candidate] & (start[rows] < end[candidate]) & (end[rows] <= end[candidate])
        parents[rows[holds]] = candidate[holds]
        rows, candidate = rows[~holds], above[candidate[~holds]]
        rows, candidate = rows[candidate >= 0], candidate[candidate >= 0]
    return parents


def repeated(name: Array, parents: Array) -> Array:
    """Mask of the rows that are the only child of a parent of the same name: torch's tree merges them into it."""
    inner = np.flatnonzero(parents >= 0)
    children = np.bincount(parents[inner], minlength=len(parents))
    mask = np.zeros(len(parents), bool)
    mask[inner] = (children[parents[inner]] == 1) & (name[inner] == name[parents[inner]])
    return mask


def self_times(events: Columns, parents: Array) -> Array:
    """Wall time of each row less that of its children, ns; 0 for a range that ended on another thread."""
    duration = events["end_ns"] - events["start_ns"]
    own = np.maximum(duration - sums(parents, duration, len(duration)), 0)
    return np.where(is_async(events), 0, own)


def visible_rows(events: Columns, hidden: Array) -> Array:
    """For each row itself, or its nearest ancestor that is not hidden; −1 for none."""
    rows = np.arange(len(hidden))
    climbing = np.flatnonzero(hidden)
    while len(climbing):
        rows[climbing] = events["parent"][rows[climbing]]
        climbing = climbing[(rows[climbing] >= 0) & hidden[rows[climbing]]]
    return rows


def levels(events: Columns) -> list[Array]:
    """The rows with a parent, one array for each depth, the deepest first: a parent is never as deep as its child."""
    below = np.flatnonzero(events["parent"] >= 0)
    by_depth = below[np.argsort(events["depth"][below], kind="stable")]
    return np.split(by_depth, np.flatnonzero(np.diff(events["depth"][by_depth])) + 1)[::-1]


def inclusive(own: Array, parent: Array, deepest_first: list[Array], fixed: Array | None = None) -> Array:
    """Sums over each row and its descendants; rows of the mask ``fixed`` take nothing from below."""
    totals = own.copy()
    if own.any():
        for rows in deepest_first:
            if fixed is not None:
                rows = rows[~fixed[parent[rows]]]
            # Several children share a parent, so plain indexed addition would keep only one of them.
            np.add.at(totals, parent[rows], totals[rows])
    return totals


class Measure(NamedTuple):
    """One quantity for every row of the events table, int64.

    Attributes:
        own: what belongs to the row as the innermost range.
        total: with its descendants.
        by_name: string row to what belongs to a range of that name whose record is missing.
    """

    own: Array
    total: Array
    by_name: Array


@dataclass(frozen=True)
class Attribution:
    """Samples and waits by range.

    Attributes:
        samples: how many samples.
        on_cpu: the CPU time that they stand for, ns.
        off_cpu: time off the CPU, ns: the part of each wait that overlaps its range.
        runnable: the part of the waits that was spent waiting for a CPU, ns.
    """

    samples: Measure
    on_cpu: Measure
    off_cpu: Measure
    runnable: Measure


def attribute(tables: Tables) -> Attribution:
    """Give every sample and every wait to its innermost range and to that range's ancestors."""
    events, samples, waits = tables["events"], tables["samples"], tables["waits"]
    strings = length(tables["strings"])
    deepest_first = levels(events)

    def measure(rows: Columns, weights: Array) -> Measure:
        own = sums(rows["event"], weights, length(events))
        nameless = (rows["event"] < 0) & (rows["range_name"] > 0)
        by_name = sums(np.where(nameless, rows["range_name"], -1), weights, strings)
        return Measure(own, inclusive(own, events["parent"], deepest_first), by_name)

    overlap = _overlap(waits, events)
    return Attribution(
        samples=measure(samples, np.ones(length(samples))),
        on_cpu=measure(samples, samples["weight_ns"]),
        off_cpu=measure(waits, overlap),
        runnable=measure(waits, np.minimum(waits["runnable_ns"], overlap)),
    )


def _overlap(waits: Columns, events: Columns) -> Array:
    """ns of each wait inside its innermost range, the whole wait where that range has no record."""
    start, end, event = waits["start_ns"], waits["end_ns"], waits["event"]
    known = event >= 0
    start, end = start.copy(), end.copy()
    start[known] = np.maximum(start[known], events["start_ns"][event[known]])
    end[known] = np.minimum(end[known], events["end_ns"][event[known]])
    overlap: Array = np.maximum(end - start, 0)
    return overlap
