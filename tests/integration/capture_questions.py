"""What the tests ask a capture."""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion._capture import Capture


def losses(capture: Capture) -> dict[str, int]:
    """Total by kind, of kinds that lost something."""
    table = capture.columns["losses"]
    total: dict[str, int] = {}
    for kind, count in zip(table["kind"], table["count"]):
        if count:
            total[kind] = total.get(kind, 0) + int(count)
    return total


def range_names(capture: Capture, table: str = "events") -> list[str]:
    """The name of each event, or of the range that each sample or wait was in."""
    column = "name" if table == "events" else "range_name"
    texts = capture.columns["strings"]["text"]
    return [texts[index] for index in capture.columns[table][column]]


def stack_names(capture: Capture, stack: int, kind: str | None = None) -> list[str]:
    """Function names of a stack, leaf first; kind: kernel, native or python only."""
    frames = capture.columns["frames"]
    rows = capture.columns["stacks"]["frames"][stack]
    return [frames["name"][row] for row in rows if kind in (None, frames["kind"][row])]


def weight_by_function(capture: Capture, kind: str) -> dict[str, int]:
    """Sampled ns by the leaf-most function of a kind."""
    weights: dict[str, int] = {}
    samples = capture.columns["samples"]
    for stack, weight_ns in zip(samples["stack"], samples["weight_ns"]):
        names = stack_names(capture, stack, kind)
        if names:
            weights[names[0]] = weights.get(names[0], 0) + int(weight_ns)
    return weights


def thread_row(capture: Capture, tid: int) -> dict[str, Any]:
    """The scheduler's times of a thread."""
    threads = capture.columns["threads"]
    (row,) = np.flatnonzero(threads["tid"] == tid)
    return {name: column[row] for name, column in threads.items()}
