"""Where the time went, by function of the sampled stacks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pillion._tables import Array, Columns, Tables
from pillion.model.tree import sums


class FrameFunctions(NamedTuple):
    """Which function each frame is in: frames of one function differ in their lines.

    Attributes:
        function: for each frame the number of its function.
        first: for each function the first frame of it.
    """

    function: Array
    first: Array


def frame_functions(frames: Columns) -> FrameFunctions:
    """Frames of the same kind, name, file and module are of one function."""
    numbers: dict[tuple[str, str, str, str], int] = {}
    first: list[int] = []
    function = np.empty(len(frames["id"]), np.int64)
    for frame, key in enumerate(zip(*(frames[column].tolist() for column in ("kind", "name", "file", "module")))):
        function[frame] = numbers.setdefault(key, len(numbers))
        if len(numbers) > len(first):
            first.append(frame)
    return FrameFunctions(function, np.array(first, np.int64))


def functions(tables: Tables) -> Columns:
    """One row for each function on a sampled stack or on the stack of a wait.

    A function that is on a stack several times counts once. ``self_*`` is of the stacks whose leaf it is. ``line`` is
    the line that was found most.
    """
    frames, stacks = tables["frames"], tables["stacks"]["frames"]
    function, first = frame_functions(frames)
    count = len(first)
    sizes = np.diff(stacks.offsets)
    stack_of = np.repeat(np.arange(len(sizes)), sizes)
    # (stack, function) pairs, each once: recursion does not count twice.
    pairs = np.unique(stack_of * count + function[stacks.values]) if count else np.empty(0, np.int64)
    leaf = np.full(len(sizes), -1)
    leaf[sizes > 0] = function[stacks.values[stacks.offsets[:-1][sizes > 0]]]

    def total(of_stack: Array) -> Array:
        return sums(pairs % max(count, 1), of_stack[pairs // max(count, 1)], count)

    def own(of_stack: Array) -> Array:
        return sums(leaf, of_stack, count)

    samples, waits = tables["samples"], tables["waits"]
    hits = np.bincount(samples["stack"], minlength=len(sizes))
    on_cpu = sums(samples["stack"], samples["weight_ns"], len(sizes))
    off_cpu = sums(waits["stack"], waits["end_ns"] - waits["start_ns"], len(sizes))
    line = _hottest_lines(function, frames["line"], sums(stacks.values, (on_cpu + off_cpu)[stack_of], len(function)))
    columns: Columns = {
        "name": frames["name"][first],
        "kind": frames["kind"][first],
        "file": frames["file"][first],
        "line": line,
        "module": frames["module"][first],
        "self_samples": own(hits),
        "samples": total(hits),
        "self_on_cpu_ns": own(on_cpu),
        "on_cpu_ns": total(on_cpu),
        "self_off_cpu_ns": own(off_cpu),
        "off_cpu_ns": total(off_cpu),
    }
    found = (columns["samples"] > 0) | (columns["off_cpu_ns"] > 0)
    return {key: column[found] for key, column in columns.items()}


def _hottest_lines(function: Array, line: Array, weight: Array) -> Array:
    """For each function the line of its heaviest frame, the least of several."""
    order = np.lexsort((line, -weight, function))
    is_first = np.diff(function[order], prepend=-1) > 0
    return line[order[is_first]].astype(np.int64)
