"""The tree of ranges and what belongs to each: wall time, samples, waits. All of it is numpy over columns.

A row is a row of the events table. ``parent`` there says which range was innermost when another began, exactly and on
one thread. Times of a row are either its own ("self": while it was the innermost) or include its descendants ("total").
"""

from __future__ import annotations

from collections.abc import Callable
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
    above = np.ascontiguousarray(events["parent"], np.int32)
    usable = np.ascontiguousarray(~hidden & ~is_async(events), np.uint8)
    count = len(above)
    in_order = bool((above < np.arange(count)).all())
    order = None if in_order else np.argsort(events["depth"], kind="stable").astype(np.int32)
    outliving, parents = np.empty(count, np.int32), np.empty(count, np.int32)
    start_end = [np.ascontiguousarray(events[key], np.int64) for key in ("start_ns", "end_ns")]
    times = [ffi.from_buffer("int64_t[]", column) for column in start_end]
    rows = [ffi.NULL if column is None else ffi.from_buffer("int32_t[]", column) for column in (above, order)]
    found = [ffi.from_buffer("int32_t[]", column) for column in (outliving, parents)]
    if not lib.pln_nest_below(*times, rows[0], ffi.from_buffer("uint8_t[]", usable), rows[1], count, *found):
        raise IndexError("a parent is no row, or as deep as its child")
    return parents.astype(np.int64)


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


# How much of items, numbered by their rows, lies in events: of each item in one event.
Part = Callable[[Array, Array], Array]


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
    """Give every sample and every wait to its innermost range and, for the part that lies in them, to its ancestors."""
    events, samples, waits = tables["events"], tables["samples"], tables["waits"]
    strings = length(tables["strings"])
    deepest_first = levels(events)
    outlives = _outlives(events, deepest_first)

    def measure(rows: Columns, part: Part) -> Measure:
        """part: how much of items lies in events, which may have no record."""
        items, event = np.arange(length(rows)), rows["event"]
        weights = part(items, event)
        own = sums(event, weights, length(events))
        nameless = (event < 0) & (rows["range_name"] > 0)
        by_name = sums(np.where(nameless, rows["range_name"], -1), weights, strings)
        climbs = (event >= 0) & outlives[event] if length(events) else event >= 0
        total = inclusive(sums(np.where(climbs, -1, event), weights, length(events)), events["parent"], deepest_first)
        return Measure(own, total + _climbed(items[climbs], event[climbs], events["parent"], part), by_name)

    def counted(items: Array, event: Array) -> Array:
        return _are_in(samples, items, events, event).astype(np.int64)

    def on_cpu(items: Array, event: Array) -> Array:
        return np.where(_are_in(samples, items, events, event), samples["weight_ns"][items], 0)

    def off_cpu(items: Array, event: Array) -> Array:
        return _overlap(waits, items, events, event)

    def runnable(items: Array, event: Array) -> Array:
        share: Array = np.minimum(waits["runnable_ns"][items], off_cpu(items, event))
        return share

    return Attribution(
        samples=measure(samples, counted),
        on_cpu=measure(samples, on_cpu),
        off_cpu=measure(waits, off_cpu),
        runnable=measure(waits, runnable),
    )


def _outlives(events: Columns, deepest_first: list[Array]) -> Array:
    """Mask of the rows that end after an ancestor, as asynchronous tasks of a thread do, or lie in one that does."""
    parent, end = events["parent"], events["end_ns"]
    mask = np.zeros(len(parent), bool)
    for rows in reversed(deepest_first):
        mask[rows] = mask[parent[rows]] | (end[rows] > end[parent[rows]])
    return mask


def _climbed(items: Array, event: Array, parent: Array, part: Part) -> Array:
    """Per event the parts of items that lie in it, from their innermost event up."""
    total = np.zeros(len(parent), np.int64)
    while len(items):
        np.add.at(total, event, part(items, event))
        event = parent[event]
        items, event = items[event >= 0], event[event >= 0]
    return total


def _are_in(samples: Columns, items: Array, events: Columns, event: Array) -> Array:
    """Whether samples were taken in events: in their innermost ones they were."""
    inside: Array = event == samples["event"][items]
    others = np.flatnonzero(~inside)
    ts_ns, rows = samples["ts_ns"][items[others]], event[others]
    inside[others] = (events["start_ns"][rows] <= ts_ns) & (ts_ns < events["end_ns"][rows])
    return inside


def _overlap(waits: Columns, items: Array, events: Columns, event: Array) -> Array:
    """ns of waits inside events, the whole wait where the event has no record."""
    start, end = waits["start_ns"][items], waits["end_ns"][items]
    known = event >= 0
    start[known] = np.maximum(start[known], events["start_ns"][event[known]])
    end[known] = np.minimum(end[known], events["end_ns"][event[known]])
    overlap: Array = np.maximum(end - start, 0)
    return overlap
