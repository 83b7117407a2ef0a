"""Events and activities as a tree of names: those with the same name under the same callers share a node.

It stands in for stacks where nobody took samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pillion._tables import Array, Tables, length
from pillion.model.nesting import depths
from pillion.model.tree import nested_parents, self_times
from pillion_probes.layout import CONSTANTS

# A stack is written whole for each node, so the depth bounds how much is written; real programs stay far below.
_DEPTH_MAX = 1000


class CallTree(NamedTuple):
    """Nodes are numbered callers first. Of events and activities, one row each:

    Attributes:
        name: of each node, a row of strings.
        parent: of each node, −1 for none.
        node: of each event, then of each activity.
        calls, wall_ns, device_ns: of each event, then of each activity; wall time without that of nested events.
    """

    name: Array
    parent: Array
    node: Array
    calls: Array
    wall_ns: Array
    device_ns: Array


def call_tree(tables: Tables) -> CallTree:
    """The tree of a capture. Marks are left out (node −1); what is nested too deep counts for the last that is not."""
    events, activities = tables["events"], tables["activities"]
    count = length(events)
    is_mark = events["kind"] == CONSTANTS["PLN_MARK"]
    above = nested_parents(events, is_mark)
    tree = _Builder(length(tables["strings"]), count + length(activities))
    for depth, rows in enumerate(_levels(depths(above), ~is_mark)):
        if depth < _DEPTH_MAX:
            tree.add(rows, events["name"][rows], above[rows])
        else:
            tree.node[rows] = tree.node[above[rows]]
    tree.add(count + np.arange(length(activities)), activities["name"], activities["event"])
    nothing, device_ns = np.zeros(length(activities), np.int64), activities["end_ns"] - activities["start_ns"]
    return CallTree(
        np.concatenate(tree.names),
        np.concatenate(tree.parents),
        tree.node,
        np.concatenate([(~is_mark).astype(np.int64), nothing]),
        np.concatenate([np.where(is_mark, 0, self_times(events, above)), nothing]),
        np.concatenate([np.zeros(count, np.int64), np.maximum(device_ns, 0)]),
    )


class _Builder:
    """Adds rows to a tree, callers first.

    Args:
        texts: how many names there are.
        rows: how many rows will be added.
    """

    def __init__(self, texts: int, rows: int) -> None:
        self._texts = texts
        self._count = 0
        self.node = np.full(rows, -1)
        self.names: list[Array] = []
        self.parents: list[Array] = []

    def add(self, rows: Array, names: Array, callers: Array) -> None:
        """Add rows with these names below the nodes of these rows; −1 for none."""
        parent = np.full(len(rows), -1)
        parent[callers >= 0] = self.node[callers[callers >= 0]]
        keys, place = np.unique((parent + 1) * self._texts + names, return_inverse=True)
        self.node[rows] = place + self._count
        self.parents.append(keys // self._texts - 1)
        self.names.append(keys % self._texts)
        self._count += len(keys)


def _levels(depth: Array, usable: Array) -> list[Array]:
    """The usable rows, one array for each depth."""
    rows = np.flatnonzero(usable)
    order = rows[np.argsort(depth[rows], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)


def has_stacks(tables: Tables) -> bool:
    """Whether there are samples or waits."""
    return length(tables["samples"]) + length(tables["waits"]) > 0
