"""Which events belong together although they are on different tracks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pillion._tables import Array, Columns, Tables, column


class Links(NamedTuple):
    """Pairs of rows.

    Attributes:
        number: of each pair; pairs that share their source share their number.
        source: rows of events.
        target: rows of events or activities.
    """

    number: Array
    source: Array
    target: Array


def launches(tables: Tables) -> Links:
    """From calls into the device's runtime to the activities that they started.

    The number is the correlation. Where processes count their own, as in imported profiles, those of a second process
    begin at 2**32.
    """
    events, activities = tables["events"], tables["activities"]
    launch = column("activities", activities, "launch")
    target = np.flatnonzero(launch >= 0)
    source = launch[target]
    correlation = activities["correlation"][target]
    # Above every correlation, which are of 32 bits, and below those of the next process.
    number = np.where(correlation == 0, source + (1 << 31), correlation)
    if _is_shared(number, source):
        number = (np.unique(events["pid"][source], return_inverse=True)[1] << 32) + number
    return Links(number, source, target)


def _is_shared(number: Array, source: Array) -> bool:
    """Whether several sources have the same number."""
    order = np.argsort(number, kind="stable")
    number, source = number[order], source[order]
    return bool(np.any((number[1:] == number[:-1]) & (source[1:] != source[:-1])))


def backward_passes(events: Columns) -> Links:
    """From operators to the operators of their backward pass: autograd gives both the same sequence number.

    Several nested operators can carry it. The forward one is the last that began, as that is the one which made the
    node; the backward one likewise, as what runs the node encloses it. They are numbered in the order of the backward
    ones, as in Kineto's traces.
    """
    nothing = np.zeros(0, np.int64)
    if "sequence_nr" not in events or "fwd_thread" not in events:
        return Links(nothing, nothing, nothing)
    numbered = np.flatnonzero(events["sequence_nr"] >= 0)
    is_backward = events["fwd_thread"][numbered] != 0
    forward = _last_of_number(events, numbered[~is_backward])
    backward = _last_of_number(events, numbered[is_backward])
    _, key = np.unique(_keys(events, np.concatenate([forward, backward])), axis=0, return_inverse=True)
    forward_key, backward_key = key.ravel()[: len(forward)], key.ravel()[len(forward) :]
    forward_of = np.full(len(key) + 1, -1)
    forward_of[forward_key] = forward
    source = forward_of[backward_key]
    found = np.flatnonzero(source >= 0)
    found = found[np.argsort(events["start_ns"][backward[found]], kind="stable")]
    return Links(np.arange(1, len(found) + 1), source[found], backward[found])


def _keys(events: Columns, rows: Array) -> Array:
    return np.stack([events["pid"][rows].astype(np.int64), events["sequence_nr"][rows]], axis=1)


def _last_of_number(events: Columns, rows: Array) -> Array:
    """Of the rows with the same process and sequence number the one that began last."""
    order = rows[np.lexsort((rows, events["start_ns"][rows], events["sequence_nr"][rows], events["pid"][rows]))]
    keys = _keys(events, order)
    is_last = np.ones(len(order), bool)
    is_last[:-1] = (keys[1:] != keys[:-1]).any(axis=1)
    return order[is_last]
