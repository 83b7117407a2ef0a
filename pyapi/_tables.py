"""The tables of a capture: their columns, and how they become Arrow and come back.

Inside Pillion a table is a dict of numpy arrays of one length, because merge, tree and averages are numpy over columns.
Arrow is what is stored and what users get. Every reference to another table is a row number of it. None is −1 for
events, and 0 elsewhere: row 0 of ``strings`` is the empty string, row 0 of ``stacks`` the empty stack. Times are
CLOCK_MONOTONIC in ns, −1 for unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pillion._errors import CaptureError

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Ragged:
    """A column of lists: list i is ``values[offsets[i]:offsets[i + 1]]``.

    Attributes:
        offsets: int32, one more than there are rows.
        values: int32.
    """

    offsets: Array
    values: Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Array:
        values: Array = self.values[self.offsets[row] : self.offsets[row + 1]]
        return values


Columns = dict[str, Any]
"""Column name to a numpy array; text columns are object arrays of str or None, "ids" columns are Ragged."""

Tables = dict[str, Columns]

# A column's type is a numpy dtype, "text", or "ids" (a list of int32).
SCHEMAS: dict[str, dict[str, str]] = {
    "events": {  # ranges and marks, sorted by (pid, tid, start_ns, -end_ns)
        "id": "i8",  # its row
        "pid": "u4",
        "tid": "u4",
        "name": "i4",  # strings
        "start_ns": "i8",
        "end_ns": "i8",
        "parent": "i8",  # events: the enclosing range of the thread
        "depth": "u2",
        "kind": "u2",  # PLN_RANGE or PLN_MARK
        "flags": "u2",  # PLN_UNFINISHED, PLN_ASYNC
        "source": "u2",  # PLN_SOURCE_*
        "args": "i4",  # strings
        "end_tid": "u4",
        "value": "u8",  # of a mark
    },
    "samples": {  # moments at which a thread was found on a CPU, sorted by ts_ns
        "ts_ns": "i8",
        "pid": "u4",
        "tid": "u4",
        "cpu": "u2",
        "weight_ns": "i8",  # the CPU time that it stands for
        "flags": "u2",  # PLN_TRUNCATED
        "stack": "i8",  # stacks
        "event": "i8",  # events: the innermost open range
        "range_name": "i4",  # strings: its name, known even where its record is not
    },
    "waits": {  # times off the CPU, sorted by start_ns
        "start_ns": "i8",
        "end_ns": "i8",
        "pid": "u4",
        "tid": "u4",
        "cpu": "u2",
        "flags": "u2",  # PLN_TRUNCATED, PLN_PREEMPTED
        "stack": "i8",  # stacks
        "event": "i8",  # events
        "range_name": "i4",  # strings
        "runnable_ns": "i8",  # the part for which it waited for a CPU
        "state": "u2",  # of the task: 0 runnable, 1 interruptible, 2 uninterruptible, …
        "waker_pid": "u4",  # 0: unknown, or woken by an interrupt
        "waker_tid": "u4",
    },
    "activities": {  # work of devices; nothing fills it yet
        "kind": "text",
        "name": "i4",  # strings
        "start_ns": "i8",
        "end_ns": "i8",
        "device": "i4",
        "stream": "i8",
        "correlation": "i8",
        "event": "i8",  # events
    },
    "stacks": {"id": "i8", "frames": "ids"},  # rows of frames, leaf first: kernel, native, Python
    "frames": {"id": "i8", "kind": "text", "name": "text", "file": "text", "line": "i4", "module": "text"},
    "strings": {"id": "i8", "text": "text"},
    "processes": {
        "pid": "u4",
        "start_ns": "i8",
        "end_ns": "i8",
        "ppid": "u4",
        "uid": "i8",
        "comm": "text",
        "cmdline": "text",
        "python": "text",
        "python_unavailable": "text",
    },
    "threads": {  # exact, from the scheduler; −1 where nobody measured
        "pid": "u4",
        "tid": "u4",
        "name": "text",
        "on_cpu_ns": "i8",
        "off_cpu_ns": "i8",
        "runnable_ns": "i8",
        "switches": "i8",
        "first_ns": "i8",
        "last_ns": "i8",
    },
    "losses": {"kind": "text", "pid": "u4", "tid": "u4", "count": "i8", "place": "text"},
}

# What a capture from elsewhere must keep for its rows to be looked up: (table, column) to the table it points into.
_REFERENCES = {
    ("events", "name"): "strings",
    ("events", "args"): "strings",
    ("events", "parent"): "events",
    ("samples", "stack"): "stacks",
    ("samples", "event"): "events",
    ("samples", "range_name"): "strings",
    ("waits", "stack"): "stacks",
    ("waits", "event"): "events",
    ("waits", "range_name"): "strings",
}


def length(columns: Columns) -> int:
    """Rows of a table."""
    return len(next(iter(columns.values())))


def text_column(texts: Sequence[str | None]) -> Array:
    """A text column; numpy alone would make it as wide as its longest text."""
    column = np.empty(len(texts), dtype=object)
    column[:] = texts
    return column


def ragged_column(rows: Sequence[Sequence[int]]) -> Ragged:
    """A column of lists."""
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    return Ragged(offsets, np.fromiter((value for row in rows for value in row), np.int32, int(offsets[-1])))


def from_rows(table: str, rows: Iterable[tuple[Any, ...]]) -> Columns:
    """A table of a few rows, each a tuple in the order of the schema."""
    schema = SCHEMAS[table]
    values: list[Sequence[Any]] = list(zip(*rows)) or [()] * len(schema)
    makers: dict[str, Callable[[Any], Any]] = {"text": text_column, "ids": ragged_column}
    return {
        name: makers[kind](column) if kind in makers else np.array(column, dtype=kind)
        for (name, kind), column in zip(schema.items(), values)
    }


def to_arrow(table: str, columns: Columns) -> pa.Table:
    """The Arrow table; numeric columns share their memory."""
    import pyarrow as pa

    arrays = []
    for name, kind in SCHEMAS[table].items():
        column = columns[name]
        if kind == "ids":
            arrays.append(pa.ListArray.from_arrays(pa.array(column.offsets), pa.array(column.values)))
        else:
            arrays.append(pa.array(column, pa.string() if kind == "text" else None))
    return pa.Table.from_arrays(arrays, names=list(SCHEMAS[table]))


def from_arrow(table: str, arrow: pa.Table) -> Columns:
    """The columns of an Arrow table.

    Raises:
        CaptureError: a column is missing, has another type, or has nulls where none may be.
    """
    import pyarrow as pa

    columns: Columns = {}
    for name, kind in SCHEMAS[table].items():
        try:
            column = arrow.column(name).combine_chunks()
            if kind == "text":
                columns[name] = text_column(column.cast(pa.string()).to_pylist())
                continue
            if kind == "ids":
                offsets = column.offsets.to_numpy()
                values = column.values.to_numpy()
                columns[name] = Ragged(offsets.astype(np.int32), values.astype(np.int32))
                continue
            columns[name] = column.cast(pa.from_numpy_dtype(np.dtype(kind))).to_numpy()
        except (KeyError, AttributeError, pa.ArrowException) as error:
            raise CaptureError(f"cannot read the table {table}", f"column {name}: {error}") from error
    return columns


def check_references(tables: Tables) -> None:
    """Make sure that every row number leads to a row and that no range is its own ancestor.

    Raises:
        CaptureError: the tables do not fit each other.
    """
    for (table, column), target in _REFERENCES.items():
        values = tables[table][column]
        lowest = -1 if target == "events" else 0
        if len(values) and not lowest <= values.min() <= values.max() < length(tables[target]):
            raise CaptureError(f"cannot read the table {table}", f"column {column} points outside {target}")
    frames = tables["stacks"]["frames"].values
    if len(frames) and not 0 <= frames.min() <= frames.max() < length(tables["frames"]):
        raise CaptureError("cannot read the table stacks", "column frames points outside frames")
    events = tables["events"]
    children = np.flatnonzero(events["parent"] >= 0)
    if np.any(events["depth"][events["parent"][children]] >= events["depth"][children]):
        raise CaptureError("cannot read the table events", "a range is not deeper than its parent")
