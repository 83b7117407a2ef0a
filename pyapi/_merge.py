"""From a spool to the tables of a capture: strings unified, parents and samples joined to their ranges.

A range is named by (region, tid, seq). Nothing is joined by time, except that the region of a sample is the one that
its process had at that moment. All of it is numpy over columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pillion._inventory import capture_meta, losses_table, processes_table, region_starts, stack_tables, threads_table
from pillion._spool import RANGE_DTYPE, SAMPLE_DTYPE, Dropped, Spool, StructArray, parse_string_log
from pillion._tables import Array, Columns, Labels, Tables, from_rows, text_column
from pillion_probes.layout import CONSTANTS

_USER_SCOPE = 7  # at::RecordScope of a range that is no operator
_EVENT_KINDS = (CONSTANTS["PLN_RANGE"], CONSTANTS["PLN_MARK"])


@dataclass(frozen=True)
class _Strings:
    """One table for the strings of all regions.

    Attributes:
        texts: by row; row 0 is "".
        rows: region to the ids that its records use, ascending, and the row of each.
    """

    texts: list[str]
    rows: dict[int, tuple[Array, Array]]

    def lookup(self, region: int, ids: Array) -> Array:
        """Rows of a region's string ids, 0 where there is no such string."""
        return _rows_of(ids, *self.rows[region]) if region in self.rows else np.zeros(len(ids), np.int64)


@dataclass(frozen=True)
class _Ranges:
    """Finds the events row of a range by its name (region, tid, seq).

    Attributes:
        threads: (region << 32 | tid), ascending, each once.
        keys: (place in ``threads`` << 32 | seq), ascending.
        rows: the events row of each key.
    """

    threads: Array
    keys: Array
    rows: Array

    @classmethod
    def index(cls, region: Array, tid: Array, seq: Array) -> _Ranges:
        """An index over all events; their rows are their places."""
        packed = _pack(region, tid)
        # Sorted events are few runs, one a thread.
        starts = np.flatnonzero(np.diff(packed, prepend=~packed[:1]))
        threads, run_thread = np.unique(packed[starts], return_inverse=True)
        keys = _pack(np.repeat(run_thread, np.diff(starts, append=len(packed))), seq)
        rows = np.argsort(keys, kind="stable")
        return cls(threads, keys[rows], rows)

    def find(self, region: Array, tid: Array, seq: Array) -> Array:
        """Rows of these ranges, −1 where there is none: seq 0 names none."""
        if not len(self.keys):
            return np.full(len(seq), -1)
        wanted = _pack(region, tid)
        thread = np.minimum(np.searchsorted(self.threads, wanted), len(self.threads) - 1)
        key = _pack(thread, seq)
        # The last of equal keys: a thread id that is used again counts anew.
        place = np.maximum(np.searchsorted(self.keys, key, side="right") - 1, 0)
        found = (self.threads[thread] == wanted) & (self.keys[place] == key) & (seq > 0)
        return np.where(found, self.rows[place], -1)


def _pack(high: Array, low: Array) -> Array:
    packed: Array = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    return packed


def merge(spool: Spool) -> tuple[Tables, dict[str, Any]]:
    """The tables of a spool, as ``_tables.SCHEMAS`` lays them out, and its meta."""
    dropped: list[Dropped] = []
    strings = _unify_strings(spool, dropped)
    records = _concatenate(spool)
    events, ranges = _events_table(records, strings)
    frames, stacks, stack_ids, stack_rows, bad_stacks = stack_tables(spool)
    samples = _sampled(spool, CONSTANTS["PLN_SAMPLE"])
    waits = _sampled(spool, CONSTANTS["PLN_WAIT"])
    regions = list(region_starts(spool))
    tables: Tables = {
        "events": events,
        "samples": {
            "ts_ns": _nanoseconds(samples["start_ns"]),
            "weight_ns": _nanoseconds(samples["weight_ns"]),
            "stack": _rows_of(samples["stack"], stack_ids, stack_rows),
            **_ranges_of(samples, regions, strings, ranges, events),
            **{name: samples[name].copy() for name in ("pid", "tid", "cpu", "flags")},
        },
        "waits": {
            "start_ns": _nanoseconds(waits["start_ns"]),
            "end_ns": _nanoseconds(waits["end_ns"]),
            "runnable_ns": _nanoseconds(waits["weight_ns"]),
            "stack": _rows_of(waits["stack"], stack_ids, stack_rows),
            **_ranges_of(waits, regions, strings, ranges, events),
            **{name: waits[name].copy() for name in ("pid", "tid", "cpu", "flags", "state", "waker_pid", "waker_tid")},
        },
        "activities": from_rows("activities", ()),
        "stacks": stacks,
        "frames": frames,
        "strings": {"id": np.arange(len(strings.texts)), "text": text_column(strings.texts)},
        "processes": processes_table(spool),
        "threads": threads_table(spool, _thread_names(records, strings)),
        "losses": losses_table(spool, dropped + bad_stacks),
    }
    return tables, capture_meta(spool, _last_ns(tables))


def _unify_strings(spool: Spool, dropped: list[Dropped]) -> _Strings:
    row_of: dict[str, int] = {"": 0}
    rows: dict[int, tuple[Array, Array]] = {}
    for region, log in spool.string_logs.items():
        texts, bad = parse_string_log(log, region)
        dropped += bad
        texts.setdefault(0, "")
        used = sorted(texts)
        rows[region] = (
            np.array(used, np.uint64),
            np.array([row_of.setdefault(texts[string], len(row_of)) for string in used]),
        )
    return _Strings(list(row_of), rows)


@dataclass(frozen=True)
class _Records:
    """Records with the region and the pid of each."""

    records: StructArray
    region: Array
    pid: Array

    def where(self, mask: Array) -> _Records:
        return self if mask.all() else _Records(self.records[mask], self.region[mask], self.pid[mask])


def _concatenate(spool: Spool) -> _Records:
    blocks = spool.records
    sizes = [len(block.records) for block in blocks]
    return _Records(
        np.concatenate([block.records for block in blocks]) if blocks else np.empty(0, RANGE_DTYPE),
        np.repeat(np.array([block.region for block in blocks], np.uint32), sizes),
        np.repeat(np.array([block.pid for block in blocks], np.uint32), sizes),
    )


def _sampled(spool: Spool, kind: int) -> StructArray:
    """The samples of a kind in the order of their time."""
    records = np.concatenate(spool.samples) if spool.samples else np.empty(0, SAMPLE_DTYPE)
    records = records[records["kind"] == kind]
    in_time: StructArray = records[np.argsort(records["start_ns"], kind="stable")]
    return in_time


def _nanoseconds(column: Array) -> Array:
    """u64 times as int64: an absurd one becomes the greatest there is, so that none wraps below 0."""
    return np.minimum(column, np.uint64(2**63 - 1)).astype(np.int64)


def _events_table(all_records: _Records, strings: _Strings) -> tuple[Columns, _Ranges]:
    of = all_records.where(np.isin(all_records.records["kind"], _EVENT_KINDS))
    start = _nanoseconds(of.records["start_ns"])
    # A clock that two processors read can differ by a few ns: no range ends before it starts.
    end = np.maximum(_nanoseconds(of.records["end_ns"]), start)
    order = np.lexsort((of.records["depth"], -end, start, _pack(of.pid, of.records["tid"])))

    copied = ("tid", "depth", "kind", "flags", "source", "end_tid", "value", "seq", "parent")
    sorted_columns = {name: of.records[name][order] for name in copied}
    seq, parent_seq = sorted_columns.pop("seq"), sorted_columns.pop("parent")
    region = of.region[order]
    ranges = _Ranges.index(region, sorted_columns["tid"], seq)
    events: Columns = {
        "id": np.arange(len(order)),
        "pid": of.pid[order],
        "start_ns": start[order],
        "end_ns": end[order],
        "name": _string_rows(of.records["name"][order], region, strings),
        "args": _string_rows(of.records["args"][order], region, strings),
        **sorted_columns,
    }
    events["parent"] = _parents(events, ranges.find(region, events["tid"], parent_seq))
    return events | _torch_columns(events, of.records["scope"][order]), ranges


def _torch_columns(events: Columns, scope: Array) -> Columns:
    """What torch's own records say besides: none of these columns where there are none."""
    of_torch = events["source"] == CONSTANTS["PLN_SOURCE_TORCH"]
    if not of_torch.any():
        return {}
    is_operator = of_torch & (scope != _USER_SCOPE)
    shapes = np.where(is_operator, events["args"], 0)
    events["args"] = np.where(is_operator, 0, events["args"])
    return {
        **({"shapes": shapes} if shapes.any() else {}),
        "category": Labels(is_operator.astype(np.int32), ("user_annotation", "cpu_op")),
        "scope": np.where(of_torch, scope, _USER_SCOPE).astype(np.int16),
        "sequence_nr": np.where(is_operator, events["value"].view(np.int64), -1),
    }


def _parents(events: Columns, parent: Array) -> Array:
    """Drops parents that no honest thread can have, so that every walk to the root ends: it climbs by depth."""
    depth, start = events["depth"], events["start_ns"]
    honest = (parent >= 0) & (depth[parent] < depth) & (start[parent] <= start)
    return np.where(honest, parent, -1)


def _string_rows(ids: Array, region: Array, strings: _Strings) -> Array:
    """Rows of string ids, each of its own region."""
    rows = np.zeros(len(ids), np.int32)
    for number in np.unique(region):
        mine = region == number
        rows[mine] = strings.lookup(int(number), ids[mine])
    return rows


def _rows_of(ids: Array, known: Array, rows: Array) -> Array:
    """Rows of ids, 0 for an unknown one. ``known`` is ascending and not empty."""
    place = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[place] == ids, rows[place], 0)


def _ranges_of(
    samples: StructArray, regions: list[tuple[int, int, int]], strings: _Strings, ranges: _Ranges, events: Columns
) -> Columns:
    """The columns ``event`` and ``range_name`` of samples: their innermost ranges.

    A thread publishes its range, and a sample carries it. One that carries none was taken outside all ranges, or in the
    moment in which the collector learnt of the process; times tell these apart, since a record covers its whole range.
    """
    region = _region_at(samples["pid"], _nanoseconds(samples["start_ns"]), regions)
    event = ranges.find(np.maximum(region, 0), samples["tid"], samples["range_seq"])
    event = np.where(region >= 0, event, -1)
    name = _string_rows(samples["range_name"], region, strings)
    silent = samples["range_seq"] == 0
    quiet = samples[silent]
    event[silent] = enclosing(events, quiet["pid"], quiet["tid"], _nanoseconds(quiet["start_ns"]))
    found = silent & (event >= 0)
    name[found] = events["name"][event[found]]
    return {"event": event, "range_name": name}


def enclosing(events: Columns, pid: Array, tid: Array, at_ns: Array) -> Array:
    """The row of the innermost range of a thread that was open at each moment, −1 for none."""
    count = len(events["id"])
    if not count:
        return np.full(len(at_ns), -1)
    thread = np.concatenate([_pack(events["pid"], events["tid"]), _pack(pid, tid)])
    is_sample = np.arange(len(thread)) >= count
    # Events of a thread come by start, and the last one that began is the innermost or lies in it, ended.
    order = np.lexsort((is_sample, np.concatenate([events["start_ns"], at_ns]), thread))
    preceding = np.maximum.accumulate(np.where(is_sample[order], -1, order))
    event = np.full(len(thread), -1)
    event[order] = np.where((preceding >= 0) & (thread[np.maximum(preceding, 0)] == thread[order]), preceding, -1)
    event = event[count:]
    while len(over := np.flatnonzero((event >= 0) & (events["end_ns"][event] <= at_ns))):
        event[over] = events["parent"][event[over]]  # climbs by depth, so it ends
    return event


def _region_at(pid: Array, ts_ns: Array, regions: list[tuple[int, int, int]]) -> Array:
    """The region that each pid had at each time, −1 for none: the last one that had started.

    Regions and moments are sorted together by pid and time; each moment takes the region that precedes it.
    """
    number, region_pid, region_start = np.array(regions, np.int64).reshape(-1, 3).T
    count = len(number)
    all_pid = np.concatenate([region_pid, pid])
    is_moment = np.arange(len(all_pid)) >= count
    order = np.lexsort((is_moment, np.concatenate([region_start, ts_ns]), all_pid))
    preceding = np.maximum.accumulate(np.where(is_moment[order], -1, np.arange(len(order))))
    source = order[np.maximum(preceding, 0)]
    fits = (preceding >= 0) & (all_pid[source] == all_pid[order])
    found = np.full(len(all_pid), -1)
    found[order[fits]] = number[source[fits]]
    return found[count:]


def _thread_names(all_records: _Records, strings: _Strings) -> dict[tuple[int, int], str]:
    """(pid, tid) to the name that the thread gave last."""
    of = all_records.where(all_records.records["kind"] == CONSTANTS["PLN_THREAD"])
    names = _string_rows(of.records["name"], of.region, strings)
    threads = zip(of.pid.tolist(), of.records["tid"].tolist())
    return {thread: strings.texts[name] for thread, name in zip(threads, names)}


def _last_ns(tables: Tables) -> int:
    """The last moment of which anything is known."""
    columns = (tables["events"]["end_ns"], tables["samples"]["ts_ns"], tables["waits"]["end_ns"])
    return max((int(column.max()) for column in columns if len(column)), default=0)
