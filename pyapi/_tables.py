"""The tables of a capture and their columns.

Inside Pillion a table is a dict of numpy arrays of one length, because merge, tree and averages are numpy over columns.
Arrow is what is stored and what users get (``_arrow``). Every reference to another table is a row number of it. None is
−1 for events, and 0 elsewhere: row 0 of ``strings`` is the empty string, row 0 of ``stacks`` the empty stack. Times are
in ns of one clock, −1 for unknown: of CLOCK_MONOTONIC in a recording, of its own in an imported profile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pillion._errors import CaptureError

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


@dataclass(frozen=True)
class Labels:
    """A column of few different texts: row i is ``texts[codes[i]]``.

    Attributes:
        codes: int32.
        texts: each once.
    """

    codes: Array
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> str:
        return self.texts[int(self.codes[row])]

    def take(self, rows: Array) -> Labels:
        """These rows, or the rows of a mask."""
        return Labels(self.codes[rows], self.texts)

    def isin(self, *texts: str) -> Array:
        """Mask of the rows that have one of the texts."""
        mask: Array = np.array([text in texts for text in self.texts], bool)[self.codes]
        return mask


Columns = dict[str, Any]
"""Column name to a numpy array; text columns are object arrays of str or None, "ids" columns are Ragged, "label"
columns are Labels."""

Tables = dict[str, Columns]

# A column's type is a numpy dtype, "text", "label" (few different texts), or "ids" (a list of int32).
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
        # What only profilers of operators and devices know; OPTIONAL has what a table without the column means.
        "category": "label",  # user_annotation, cpu_op, cuda_runtime, cuda_driver, python_function, overhead, …
        "scope": "i2",  # at::RecordScope: 0 function, 1 backward function, 7 user
        "sequence_nr": "i8",  # autograd's; an operator and its backward have the same
        "fwd_thread": "i8",  # of a backward operator: the thread of its forward one, as torch numbers them
        "correlation": "i8",  # of a call into a device's runtime: the number that its activities carry, 0 for none
        "external_id": "i8",  # of an operator, or of the operator that made the call
        "overload": "i4",  # strings
        "shapes": "i4",  # strings: of the inputs, as JSON
        "stack": "i8",  # stacks: where it was called
        "cpu_memory": "i8",  # bytes, what was allocated in its time less what was freed
        "device_memory": "i8",
        "flops": "i8",
        "attributes": "i4",  # strings: whatever else its trace says, as a JSON object
        "node_id": "i4",
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
    "activities": {  # work of devices, sorted by start_ns
        "kind": "label",  # kernel, memcpy, memset, graph, sync, memory, event, overhead, user_annotation, …
        "name": "i4",  # strings
        "start_ns": "i8",
        "end_ns": "i8",
        "device": "i4",  # −1: none, or unknown
        "stream": "i8",
        "correlation": "i8",
        "event": "i8",  # events: what caused it, an operator or range where one is known, else its launch
        "context": "i8",
        "launch": "i8",  # events: the call into the runtime or the driver that started it
        "bytes": "i8",  # copied, set, or allocated (freed: negative)
        "attributes": "i4",  # strings: whatever else its trace says, as a JSON object
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

# Columns that a table may lack, and what every row then has: a capture of plain ranges stays small.
OPTIONAL: dict[str, dict[str, int | str]] = {
    "events": {
        "category": "user_annotation",
        "scope": 7,
        "sequence_nr": -1,
        "fwd_thread": 0,
        "correlation": 0,
        "external_id": 0,
        "overload": 0,
        "shapes": 0,
        "stack": 0,
        "cpu_memory": 0,
        "device_memory": 0,
        "flops": 0,
        "attributes": 0,
        "node_id": -1,
    },
    "activities": {"context": 0, "launch": -1, "bytes": 0, "attributes": 0},
}

# What a capture from elsewhere must keep for its rows to be looked up: (table, column) to the table it points into.
_REFERENCES = {
    ("events", "name"): "strings",
    ("events", "args"): "strings",
    ("events", "parent"): "events",
    ("events", "overload"): "strings",
    ("events", "shapes"): "strings",
    ("events", "stack"): "stacks",
    ("events", "attributes"): "strings",
    ("samples", "stack"): "stacks",
    ("samples", "event"): "events",
    ("samples", "range_name"): "strings",
    ("waits", "stack"): "stacks",
    ("waits", "event"): "events",
    ("waits", "range_name"): "strings",
    ("activities", "name"): "strings",
    ("activities", "event"): "events",
    ("activities", "launch"): "events",
    ("activities", "attributes"): "strings",
}


def length(columns: Columns) -> int:
    """Rows of a table."""
    return len(next(iter(columns.values())))


def column(table: str, columns: Columns, name: str) -> Any:
    """A column of a table; one that the table lacks as its default, repeated without taking memory (read-only)."""
    if name in columns:
        return columns[name]
    kind, default = SCHEMAS[table][name], OPTIONAL[table][name]
    if kind == "label":
        return Labels(np.broadcast_to(np.int32(0), length(columns)), (str(default),))
    return np.broadcast_to(np.array(default, dtype=kind), length(columns))


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


def label_column(texts: Sequence[str]) -> Labels:
    """A column of few different texts."""
    codes: dict[str, int] = {}
    rows = [codes.setdefault(text, len(codes)) for text in texts]
    return Labels(np.array(rows, np.int32), tuple(codes))


def from_rows(table: str, rows: Iterable[tuple[Any, ...]]) -> Columns:
    """A table of a few rows, each a tuple in the order of the schema, without the optional columns."""
    schema = {name: kind for name, kind in SCHEMAS[table].items() if name not in OPTIONAL.get(table, {})}
    values: list[Sequence[Any]] = list(zip(*rows)) or [()] * len(schema)
    makers: dict[str, Callable[[Any], Any]] = {"text": text_column, "label": label_column, "ids": ragged_column}
    return {
        name: makers[kind](column) if kind in makers else np.array(column, dtype=kind)
        for (name, kind), column in zip(schema.items(), values)
    }


def check_references(tables: Tables) -> None:
    """Make sure that every row number leads to a row and that no range is its own ancestor.

    Raises:
        CaptureError: the tables do not fit each other.
    """
    for (table, name), target in _REFERENCES.items():
        if name not in tables[table]:
            continue  # its default refers to nothing
        values = tables[table][name]
        lowest = -1 if target == "events" else 0
        if len(values) and not lowest <= values.min() <= values.max() < length(tables[target]):
            raise CaptureError(f"cannot read the table {table}", f"column {name} points outside {target}")
    frames = tables["stacks"]["frames"].values
    if len(frames) and not 0 <= frames.min() <= frames.max() < length(tables["frames"]):
        raise CaptureError("cannot read the table stacks", "column frames points outside frames")
    events = tables["events"]
    children = np.flatnonzero(events["parent"] >= 0)
    if np.any(events["depth"][events["parent"][children]] >= events["depth"][children]):
        raise CaptureError("cannot read the table events", "a range is not deeper than its parent")
