"""From what a profile says to the tables of a capture: rows in order, the tree of events, meta, what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pillion._capture import FORMAT, Capture
from pillion._order import start_order, time_order
from pillion._tables import OPTIONAL, SCHEMAS, Array, Columns, Labels, Tables, from_rows, ragged_column, text_column
from pillion.importers.losses import Losses
from pillion.model.nesting import depths, nested_among
from pillion_probes.layout import CONSTANTS

# Times further from 0 are refused: differences of two that are nearer fit into 64 bits.
TIME_MAX_NS = 2**62
_DEPTHS = 2**16


class Strings:
    """Texts as rows of the table ``strings``.

    Attributes:
        texts: by row.
    """

    def __init__(self, texts: Sequence[str] = ("",)) -> None:
        self.texts = list(texts)
        self._rows = {text: row for row, text in enumerate(self.texts)}

    def row(self, text: str) -> int:
        """The row of a text, a new one if it has none yet."""
        row = self._rows.setdefault(text, len(self.texts))
        if row == len(self.texts):
            self.texts.append(text)
        return row


def clean_times(start_ns: Array, duration_ns: Array, losses: Losses) -> tuple[Array, Array, Array]:
    """Mask of the rows whose start can be used, and start and end of these.

    A row that starts beyond any time is dropped, a duration below 0 becomes 0; both are counted.
    """
    usable = (start_ns > -TIME_MAX_NS) & (start_ns < TIME_MAX_NS)
    losses.add("bad_times", int(len(usable) - np.count_nonzero(usable)), "events without a time that can be")
    start, duration = (start_ns, duration_ns) if usable.all() else (start_ns[usable], duration_ns[usable])
    losses.add("bad_durations", int(np.count_nonzero(duration < 0)), "durations below 0, taken as 0")
    end = np.where(duration > TIME_MAX_NS, TIME_MAX_NS, start + np.clip(duration, 0, TIME_MAX_NS))
    return usable, start, np.minimum(end, TIME_MAX_NS)


def events_table(columns: Columns, losses: Losses) -> Columns:
    """The table ``events`` from rows in any order, with parents by their times.

    Args:
        columns: pid, tid, name, start_ns, end_ns, and what else is known; optional ones that say nothing are left out.
            They are used up: with the table both would be in memory.
    """
    thread = (columns["pid"].astype(np.uint64) << np.uint64(32)) | columns["tid"]
    order = time_order(columns["start_ns"], columns["end_ns"], thread)
    count = len(thread)
    events: Columns = {"id": np.arange(count)}
    for name, kind in SCHEMAS["events"].items():
        if name in columns and not _says_nothing(name, columns[name]):
            events[name] = _in_order(columns.pop(name), kind, order)
    events.setdefault("end_tid", events["tid"])
    events.setdefault("kind", np.full(count, CONSTANTS["PLN_RANGE"], np.uint16))
    for name in ("flags", "source", "args", "value"):
        events.setdefault(name, np.zeros(count, SCHEMAS["events"][name]))
    events["parent"], events["depth"] = _tree(events, thread if order is None else thread[order], losses)
    return events


def _in_order(column: Any, kind: str, order: Array | None) -> Any:
    if kind == "label":
        return column if order is None else column.take(order)
    converted = column.astype(kind, copy=False)
    return converted if order is None else converted[order]


def _says_nothing(name: str, column: Any) -> bool:
    """Whether every row has the default of an optional column."""
    if name not in OPTIONAL["events"]:
        return False
    default = OPTIONAL["events"][name]
    if isinstance(column, Labels):
        return set(column.texts) <= {default}
    return not (column != default).any()


def _tree(events: Columns, thread: Array, losses: Losses) -> tuple[Array, Array]:
    """Parents and depths; a chain that is too deep for the column starts anew."""
    crossing = events["flags"] & CONSTANTS["PLN_ASYNC"] != 0
    parents = nested_among(~crossing, events["start_ns"], events["end_ns"], thread)
    depth = depths(parents)
    parents = parents.astype(np.int64)
    cut = (depth > 0) & (depth % _DEPTHS == 0)
    losses.add("too_deep", int(np.count_nonzero(cut)), f"more than {_DEPTHS:,} nested ranges")
    parents[cut] = -1
    return parents, (depth % _DEPTHS).astype(np.uint16)


def activities_table(columns: Columns) -> Columns:
    """The table ``activities`` from rows in any order."""
    start: Array = columns["start_ns"]
    order = start_order(start)
    table: Columns = {}
    for name, kind in SCHEMAS["activities"].items():
        if name in columns:
            table[name] = _in_order(columns[name], kind, order)
        elif name not in OPTIONAL["activities"]:
            table[name] = np.full(len(start), -1 if name in ("event", "device") else 0, kind)
    return table


def imported(
    path: Path, kind: str, tables: Tables, strings: list[str], losses: Losses, meta: dict[str, Any]
) -> Capture:
    """The capture, with an empty table for each that the profile has nothing for.

    Args:
        kind: the format of the file.
        meta: what differs from a meta that says nothing.
    """
    for name in ("samples", "waits", "activities", "frames", "processes", "threads"):
        tables.setdefault(name, from_rows(name, ()))
    tables.setdefault("stacks", {"id": np.zeros(1, np.int64), "frames": ragged_column([[]])})
    tables["strings"] = {"id": np.arange(len(strings)), "text": text_column(strings)}
    tables["losses"] = losses.table()
    start_ns, end_ns = _span(tables)
    common = {
        "format": FORMAT,
        "recovered": False,
        "collector": "import",
        "source": kind,
        "file": path.name,
        "host": "",
        "start_ns": start_ns,
        "end_ns": end_ns,
        "realtime_offset_ns": 0,
        "rate_hz": 0,
        "period_ns": 0,
        "wait_threshold_ns": 0,
        "reason": None,
        "cost": {},
    }
    return Capture({name: tables[name] for name in SCHEMAS}, {**common, **meta})


def _span(tables: Tables) -> tuple[int, int]:
    """The first and the last moment."""
    columns = (("events", "start_ns", "end_ns"), ("activities", "start_ns", "end_ns"), ("samples", "ts_ns", "ts_ns"))
    spans = [(tables[table][first], tables[table][last]) for table, first, last in columns]
    starts = [int(first.min()) for first, _ in spans if len(first)]
    ends = [int(last.max()) for _, last in spans if len(last)]
    return min(starts, default=0), max(ends, default=0)
