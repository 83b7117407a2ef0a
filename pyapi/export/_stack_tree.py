"""Stacks as a tree: those with the same callers share them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pillion._tables import Array, Ragged


class StackTree(NamedTuple):
    """Nodes are numbered callers first.

    Attributes:
        frame: of each node, a row of frames.
        parent: of each node, the node of its caller, −1 for none.
        leaf: of each stack, the node of its innermost frame, −1 for an empty stack.
    """

    frame: Array
    parent: Array
    leaf: Array


def stack_tree(stacks: Ragged) -> StackTree:
    """The tree of stacks that are leaf first."""
    sizes, ends = np.diff(stacks.offsets), stacks.offsets[1:]
    leaf = np.full(len(sizes), -1)
    frames, parents, count = [], [], 0
    breadth = int(stacks.values.max(initial=0)) + 1
    active = np.flatnonzero(sizes > 0)
    for depth in range(int(sizes.max(initial=0))):
        active = active[sizes[active] > depth]
        keys = (leaf[active] + 1) * breadth + stacks.values[ends[active] - 1 - depth]
        nodes, node = np.unique(keys, return_inverse=True)
        leaf[active] = node + count
        parents.append(nodes // breadth - 1)
        frames.append(nodes % breadth)
        count += len(nodes)
    empty = [np.zeros(0, np.int64)]
    return StackTree(np.concatenate(empty + frames), np.concatenate(empty + parents), leaf)
