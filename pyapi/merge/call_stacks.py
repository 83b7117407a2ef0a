"""Where calls into CUDA were made: the stacks that came with them become the column ``stack`` of events.

Only the Python frames of a stack are kept, as in the stacks of torch's profiler; a stack without any stays whole. An
operator is code without Python in it, so it was called where the call in it was made.
"""

from __future__ import annotations

import numpy as np

from pillion._tables import Array, Columns, Ragged


def add_call_stacks(events: Columns, event: Array, stack: Array, stacks: Columns, frames: Columns) -> None:
    """Adds the column, and to the table ``stacks`` what it refers to.

    Args:
        event: rows of calls, −1 for one whose record is missing.
        stack: the row of stacks that came with each.
    """
    known = (event >= 0) & (stack > 0)
    event, stack = event[known], stack[known]
    if not len(event):
        return
    used, which = np.unique(stack, return_inverse=True)
    column = np.zeros(len(events["id"]), np.int64)
    column[event] = _python_stacks(used, stacks, frames)[which]
    _give_to_operators(events, np.unique(event), column)
    events["stack"] = column


def _python_stacks(used: Array, stacks: Columns, frames: Columns) -> Array:
    """For each of these stacks the row of its Python part; new rows are added to the table."""
    is_python = frames["kind"] == "python"
    listed: Ragged = stacks["frames"]
    rows: dict[tuple[int, ...], int] = {}
    added: list[tuple[int, ...]] = []
    found = []
    for stack in used.tolist():
        whole = listed[stack]
        part = tuple(whole[is_python[whole]].tolist())
        if not part or len(part) == len(whole):
            found.append(stack)
            continue
        if part not in rows:
            rows[part] = len(listed) + len(added)
            added.append(part)
        found.append(rows[part])
    ends = listed.offsets[-1] + np.cumsum([len(part) for part in added], dtype=np.int64)
    values = np.array([frame for part in added for frame in part], np.int32)
    offsets = np.concatenate([listed.offsets, ends]).astype(np.int32)
    stacks["frames"] = Ragged(offsets, np.concatenate([listed.values, values]))
    stacks["id"] = np.arange(len(offsets) - 1)
    return np.array(found, np.int64)


def _give_to_operators(events: Columns, calls: Array, stack: Array) -> None:
    """Gives operators around these calls the stack of their first call."""
    if "category" not in events:
        return
    is_code = ~events["category"].isin("user_annotation")
    inner = calls
    while len(inner):
        outer = events["parent"][inner]
        inner, outer = inner[outer >= 0], outer[outer >= 0]
        silent = is_code[outer] & (stack[outer] == 0)
        inner, outer = inner[silent], outer[silent]
        outer, first = np.unique(outer, return_index=True)
        stack[outer] = stack[inner[first]]
        inner = outer
