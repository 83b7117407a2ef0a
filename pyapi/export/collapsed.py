"""Collapsed stacks, ``a;b;c count`` a line, root first: for flamegraph.pl, inferno and speedscope."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from pillion._tables import Tables
from pillion.export._call_tree import call_tree, has_stacks
from pillion.export._file import text_output
from pillion.model.tree import sums

if TYPE_CHECKING:
    from pillion._capture import Capture

_CLEAN = str.maketrans({";": ":", "\n": " ", "\r": " ", "\t": " "})


def write_collapsed(capture: Capture, path: str | os.PathLike[str], off_cpu: bool = False) -> None:
    """Write the on-CPU stacks with their samples, or with ``off_cpu`` the stacks of waits with whole microseconds.

    Of a capture without samples and waits the nested ranges are written, with whole microseconds of their own.

    Raises:
        OSError: the file cannot be written.
    """
    lines = _stack_lines(capture.columns, off_cpu) if has_stacks(capture.columns) else _range_lines(capture.columns)
    with text_output(path) as file:
        file.writelines(f"{line} {weight}\n" for line, weight in sorted(lines.items()))


def _stack_lines(tables: Tables, off_cpu: bool) -> Counter[str]:
    count = len(tables["stacks"]["frames"])
    if off_cpu:
        waits = tables["waits"]
        weights = sums(waits["stack"], waits["end_ns"] - waits["start_ns"], count) // 1000
    else:
        weights = np.bincount(tables["samples"]["stack"], minlength=count)
    lines: Counter[str] = Counter()  # stacks that differ in their lines only are one
    for stack in np.flatnonzero(weights > 0).tolist():
        lines[_collapsed(tables, stack)] += int(weights[stack])
    return lines


def _range_lines(tables: Tables) -> Counter[str]:
    tree, texts = call_tree(tables), tables["strings"]["text"]
    weights = sums(tree.node, tree.wall_ns + tree.device_ns, len(tree.name)) // 1000
    paths: list[str] = []
    for name, parent in zip(tree.name.tolist(), tree.parent.tolist()):
        own = texts[name].translate(_CLEAN) or "[unknown]"
        paths.append(f"{paths[parent]};{own}" if parent >= 0 else own)
    lines: Counter[str] = Counter()
    for node in np.flatnonzero(weights > 0).tolist():
        lines[paths[node]] += int(weights[node])
    return lines


def _collapsed(tables: Tables, stack: int) -> str:
    frames = tables["frames"]
    return (
        ";".join(
            _frame(frames["name"][frame], frames["kind"][frame], frames["file"][frame])
            for frame in tables["stacks"]["frames"][stack][::-1].tolist()
        )
        or "[unknown]"
    )


def _frame(name: str, kind: str, file: str) -> str:
    """``name_[k]`` is what flame graphs colour as kernel."""
    text = f"{name}_[k]" if kind == "kernel" else f"{name} ({file})" if file else name
    return text.translate(_CLEAN) or "[unknown]"
