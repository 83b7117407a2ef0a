"""Collapsed stacks, ``a;b;c count`` a line, root first: for flamegraph.pl, inferno and speedscope."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from pillion._tables import Tables
from pillion.export._file import text_output
from pillion.model.tree import sums

if TYPE_CHECKING:
    from pillion._capture import Capture

_CLEAN = str.maketrans({";": ":", "\n": " ", "\r": " ", "\t": " "})


def write_collapsed(capture: Capture, path: str | os.PathLike[str], off_cpu: bool = False) -> None:
    """Write the on-CPU stacks with their samples, or with ``off_cpu`` the stacks of waits with whole microseconds.

    Raises:
        OSError: the file cannot be written.
    """
    tables = capture.columns
    count = len(tables["stacks"]["frames"])
    if off_cpu:
        waits = tables["waits"]
        weights = sums(waits["stack"], waits["end_ns"] - waits["start_ns"], count) // 1000
    else:
        weights = np.bincount(tables["samples"]["stack"], minlength=count)
    lines: Counter[str] = Counter()  # stacks that differ in their lines only are one
    for stack in np.flatnonzero(weights > 0).tolist():
        lines[_collapsed(tables, stack)] += int(weights[stack])
    with text_output(path) as file:
        file.writelines(f"{line} {weight}\n" for line, weight in sorted(lines.items()))


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
