"""Traces that Pillion exported: which table each row is of, and what the rows say that no trace of others does."""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion._native import lib
from pillion._tables import SCHEMAS, Array, Columns, Tables
from pillion.export._chrome_own import (
    CATEGORIES,
    PREFIX,
    ROW_TABLES,
    TABLES,
    WHOLE_TABLES,
    range_names,
    scopes_of,
    sources_of,
)
from pillion.export._details import ACTIVITY_KEYS, EVENT_KEYS
from pillion.importers.assembly import TIME_MAX_NS, Strings, activities_table, clean_times
from pillion.importers.labels import labels
from pillion.importers.losses import Losses
from pillion.importers.own_members import is_u16, own_meta, whole_table
from pillion.importers.row_args import RowArgs
from pillion.importers.threads import Threads
from pillion.importers.trace_json import TraceJson
from pillion.merge.inventory import integer
from pillion.merge.launches import causes, launches
from pillion.merge.ranges import enclosing
from pillion.model.nesting import depths
from pillion_probes.layout import CONSTANTS

_EVENT_NUMBERS = {"cpu_memory": "CPU memory", "device_memory": "Device memory", "flops": "FLOPs"}
_DEVICE_KEYS = ("device", "stream", "context", "bytes")  # which the native reader takes of what it knows as a device's
_MOMENT_KEYS = ("cpu", "weight_us", "runnable_us", "state", "waker_pid", "waker_tid")
_KINDS = {category: kind for kind, category in CATEGORIES.items()}
_SAME = -(2**62)


class OwnTrace:
    """What is Pillion's in a trace.

    Attributes:
        places: table to the places of its rows in the trace.
        meta: of the capture.
    """

    def __init__(self, trace: TraceJson, rows: dict[str, int], phase: Array, losses: Losses) -> None:
        self._trace = trace
        self._losses = losses
        self._member: dict[str, Any] = trace.members[TABLES]
        places = np.flatnonzero(np.isin(phase, np.frombuffer(b"Xib", np.uint8)))
        ends = np.cumsum([rows[name] for name in ROW_TABLES]).tolist()
        begins = [0, *ends]
        self.places = {name: places[begin:end] for name, begin, end in zip(ROW_TABLES, begins, ends)}
        self.meta = own_meta(trace.members)
        self.strings = Strings(trace.strings)
        self._row_of_event = np.zeros(0, np.int64)

    def flags(self, flags: Array) -> Array:
        """The flags of the native reader, where those of events alone are the host's."""
        is_row = np.zeros(len(flags), bool)
        for places in self.places.values():
            is_row[places] = True
        is_row[self.places["events"]] = False  # they, and what are no rows: the ends of pairs
        device = np.uint16(lib.PLN_TRACE_DEVICE)
        return np.where(is_row, flags | device, flags & ~device)

    def restore_events(self, columns: Columns, places: Array) -> dict[str, Array]:
        """Gives events their columns back.

        Args:
            columns: what Kineto's keys say.
            places: of the rows in the trace.

        Returns:
            What can be restored once there is a table: flags, parents and depths.
        """
        args = RowArgs(self._trace, places, EVENT_KEYS, self.strings)
        columns |= {name: args.integers(key, 0) for name, key in _EVENT_NUMBERS.items()}
        columns["node_id"] = args.integers("Node id", -1, "i4")
        columns["value"] = args.integers("value", 0, "u8")
        columns |= {"args": args.texts("args"), "overload": args.texts("Overload name"), "attributes": args.rest()}
        sources = self._member.get("sources")
        usual = {name: it for name, it in (sources if isinstance(sources, dict) else {}).items() if is_u16(it)}
        columns["source"] = args.integers(f"{PREFIX}source", sources_of(columns["category"], usual), "u2")
        columns["scope"] = args.integers(f"{PREFIX}scope", scopes_of(columns["category"], columns["fwd_thread"]), "i2")
        is_open = args.integers("unfinished", 0) > 0
        flags = columns["flags"] | np.where(is_open, CONSTANTS["PLN_UNFINISHED"], 0).astype(np.uint16)
        return {
            "flags": args.integers(f"{PREFIX}flags", flags, "u2"),
            **{name: args.integers(f"{PREFIX}{name}", _SAME) for name in ("parent", "depth")},
        }

    def finish_events(self, events: Columns, known: dict[str, Array], places: Array, order: Array | None) -> None:
        """Gives the table what ``restore_events`` found.

        Args:
            places: of its rows in the trace, before they were put in this order.
        """
        rows = np.arange(len(places))
        order = rows if order is None else order
        number = np.full(len(self._trace), -1)
        number[places[order]] = rows
        self._row_of_event = number[self.places["events"]]
        events["flags"] = known["flags"][order]
        told = known["parent"][order]
        parent = np.where(told == _SAME, events["parent"], self._event_rows(told))
        try:
            implied = depths(parent)
        except ValueError:
            self._losses.add("parents", 1, f"the ranges of {PREFIX}parent are no tree: those of the times instead")
            parent = events["parent"]
            implied = depths(parent)
        told = known["depth"][order]
        depth = np.where((told >= 0) & (told < 2**16), told, np.minimum(implied, 2**16 - 1))
        is_honest = (parent < 0) | (depth[parent] < depth)
        events["parent"] = np.where(is_honest, parent, -1)
        events["depth"] = depth.astype(np.uint16)

    def activities(self, events: Columns) -> Columns:
        """The table ``activities``."""
        trace, places = self._trace, self.places["activities"]
        usable, start, end = self._times(places)
        places = places[usable]
        args = RowArgs(trace, places, ACTIVITY_KEYS, self.strings)
        columns: Columns = {
            "kind": labels(trace.column("category")[places], trace.labels, lambda name: _KINDS.get(name, name)),
            "name": trace.column("name")[places],
            "start_ns": start,
            "end_ns": end,
            "correlation": trace.column("correlation")[places],
            "attributes": args.rest(),
        }
        for name in _DEVICE_KEYS:
            columns[name] = args.integers(name, trace.column(name)[places], SCHEMAS["activities"][name])
        launch = args.integers(f"{PREFIX}launch", _SAME)
        columns["launch"] = self._told(launch, launches(events, columns["correlation"]))
        event = args.integers(f"{PREFIX}event", _SAME)
        caused = causes(events, columns["launch"], trace.column("external_id")[places])
        columns["event"] = self._told(event, caused)
        return activities_table(columns)

    def moments(self, table: str, threads: Threads, events: Columns, stacks: Array) -> Columns:
        """The table ``samples`` or ``waits``.

        Args:
            stacks: the stack of each row of the trace.
        """
        places = self.places[table]
        usable, start, end = self._times(places)
        places = places[usable]
        args = RowArgs(self._trace, places, _MOMENT_KEYS, self.strings)
        pid, tid = threads.pid[places], threads.tid[places]
        event = self._told(args.integers(f"{PREFIX}event", _SAME), enclosing(events, pid, tid, start))
        told = args.texts(f"{PREFIX}range")
        known: Columns = {
            "ts_ns": start,
            "start_ns": start,
            "end_ns": end,
            "pid": pid,
            "tid": tid,
            "weight_ns": args.nanoseconds("weight_us"),
            "runnable_ns": args.nanoseconds("runnable_us"),
            "flags": args.integers(f"{PREFIX}flags", 0, "u2"),
            "stack": stacks[places],
            "event": event,
            "range_name": np.where(told > 0, told, range_names(events, event)),
        }
        columns: Columns = {}
        for name, kind in SCHEMAS[table].items():
            columns[name] = known[name].astype(kind) if name in known else args.integers(name, 0, kind)
        order = np.argsort(start, kind="stable")
        return {name: values[order] for name, values in columns.items()}

    def whole_tables(self) -> Tables:
        """Processes and threads as they were."""
        return {name: whole_table(name, self._member.get(name)) for name in WHOLE_TABLES}

    def losses_table(self, imported: Columns) -> Columns:
        """What was lost before the export, then what the import lost."""
        before = whole_table("losses", self._trace.members.get("losses"))
        return {name: np.concatenate([before[name], imported[name]]) for name in before}

    def _times(self, places: Array) -> tuple[Array, Array, Array]:
        start = self._trace.column("start_ns")[places]
        start[self._trace.column("flags")[places] & lib.PLN_TRACE_NO_START != 0] = np.iinfo(np.int64).min
        usable, start, end = clean_times(start, self._trace.column("duration_ns")[places], self._losses)
        return usable, self.clock(start), self.clock(end)

    def clock(self, time_ns: Array) -> Array:
        """Times of the trace as those of the capture."""
        shifted: Array = np.clip(time_ns + self.meta["start_ns"], -TIME_MAX_NS, TIME_MAX_NS)
        return shifted

    def _told(self, told: Array, implied: Array) -> Array:
        return np.where(told == _SAME, implied, self._event_rows(told))

    def _event_rows(self, numbers: Array) -> Array:
        """Where the events with these numbers are now, −1 for none."""
        count = len(self._row_of_event)
        is_known = (numbers >= 0) & (numbers < count)
        rows = np.full(len(numbers), -1)
        rows[is_known] = self._row_of_event[numbers[is_known]]
        return rows


def own_trace(trace: TraceJson, phase: Array, losses: Losses) -> OwnTrace | None:
    """What is Pillion's in a trace, None if it is another's, or one of ours that somebody has changed."""
    member = trace.members.get(TABLES)
    if not isinstance(member, dict) or not isinstance(trace.members.get("pillion"), dict):
        return None
    listed = member.get("rows")
    rows = {name: integer(listed if isinstance(listed, dict) else {}, name) for name in ROW_TABLES}
    found = int(np.count_nonzero(np.isin(phase, np.frombuffer(b"Xib", np.uint8))))
    total = sum(rows.values())
    if found == total or (found < total and not trace.is_whole):
        return OwnTrace(trace, rows, phase, losses)
    losses.add("own_tables", 1, f"{TABLES} tells of {total:,} rows, the trace has {found:,}: read as a trace of others")
    return None
