"""Kineto's traces, and whatever else is in Chrome's JSON: today's dialect, that of 2021, and the bare array.

Operators, ranges and calls of the host become events, work of devices becomes activities. Arrows between them (flows)
are left out: correlation numbers say the same. Of what Pillion itself exported everything comes back.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from pillion._capture import Capture
from pillion._native import lib
from pillion._order import time_order
from pillion._tables import Array, Columns, Labels, Tables
from pillion.importers.assembly import TIME_MAX_NS, activities_table, clean_times, events_table, imported
from pillion.importers.call_stacks import Stacks
from pillion.importers.chrome_samples import Sampled, read_samples
from pillion.importers.distinct import distinct
from pillion.importers.host_events import HostEvents, host_events
from pillion.importers.labels import labels
from pillion.importers.losses import Losses
from pillion.importers.own_trace import own_trace
from pillion.importers.threads import Threads, processes_table, threads_table
from pillion.importers.trace_json import TraceJson
from pillion.merge.inventory import text
from pillion.merge.launches import causes, launches
from pillion.merge.ranges import enclosing
from pillion_probes.layout import CONSTANTS

# Categories of 2021, and the kinds of activities.
_CATEGORIES = {"": "user_annotation", "Operator": "cpu_op", "Runtime": "cuda_runtime"}
_KINDS = {
    "Kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "Memcpy": "memcpy",
    "gpu_memset": "memset",
    "Memset": "memset",
    "cuda_sync": "sync",
    "cuda_event": "event",
    "gpu_user_annotation": "user_annotation",
    "mtia_ccp_events": "kernel",
}
_MEMORY = "[memory]"
_WINDOWS = ("", "Spans", "Traces")  # what Kineto writes where others write a process: it tells of the recording
_COPIED = ("external_id", "correlation", "sequence_nr", "fwd_thread", "shapes", "attributes")
_SPANS_MAX = 1000


def import_kineto(path: Path) -> Capture:
    """Read a trace, gzipped or not.

    Raises:
        CaptureError: nothing of it is a trace.
        OSError: it cannot be read.
    """
    losses = Losses()
    return _Import(path, TraceJson(path, losses), losses).capture()


class _Import:
    def __init__(self, path: Path, trace: TraceJson, losses: Losses) -> None:
        self._path = path
        self._trace = trace
        self._losses = losses
        windows = [row for row, text in enumerate(trace.labels) if text in _WINDOWS]
        is_window = trace.column("flags") & lib.PLN_TRACE_PID_TEXT != 0
        is_window &= np.isin(trace.column("pid"), windows)
        self._is_window = is_window
        self._flags = trace.column("flags")
        self._phase = trace.column("phase")
        self._sampled: Sampled | None = None
        self._own = own_trace(trace, self._phase, losses)
        if self._own is not None:
            self._flags = self._own.flags(self._flags)

    def capture(self) -> Capture:
        trace, own = self._trace, self._own
        spans = self._places("Xi", self._is_window)
        metadata = np.flatnonzero(self._phase == ord("M"))
        on_device = self._places("XiI", self._has(lib.PLN_TRACE_DEVICE))
        # Other tools name processes: what is said of those is of the host, as what has a number is.
        flags = self._flags.copy()
        flags[~self._is_window] &= ~flags.dtype.type(lib.PLN_TRACE_PID_TEXT)
        host = host_events(trace, self._phase, flags, self._losses)
        threads = self._threads()
        tables, stacks = self._stacks()
        events = self._events(host, threads, stacks)
        if own is None:
            activities = self._activities(on_device, threads, events)
            self._add_memory(events, activities)
            tables |= {"events": events, "activities": activities}
            if self._sampled:
                tables["samples"] = self._sampled.table(events)
            tables |= self._places_tables(metadata, threads, set(np.unique(events["pid"]).tolist()))
            period_ns = self._sampled.period_ns if self._sampled else 0
            meta = self._meta(spans) | {"period_ns": period_ns, "rate_hz": round(1e9 / period_ns) if period_ns else 0}
            return imported(self._path, "kineto", tables, trace.strings, self._losses, meta)
        tables |= {"events": events, "activities": own.activities(events), **own.whole_tables()}
        tables |= {name: own.moments(name, threads, events, stacks) for name in ("waits", "samples")}
        capture = imported(self._path, "kineto", tables, own.strings.texts, self._losses, {})
        capture.columns["losses"] = own.losses_table(capture.columns["losses"])
        return Capture(capture.columns, own.meta)

    def _stacks(self) -> tuple[Tables, Array]:
        """The tables of stacks and frames, and the stack of each event: what ``sf`` refers to, else "Call stack"."""
        trace, stacks = self._trace, Stacks()
        leaf, said, nodes = trace.column("frame"), trace.column("stack"), trace.members.pop("stackFrames", None)
        if self._own is None and isinstance(sampled := trace.members.get("samples"), list):
            del trace.members["samples"]
            self._sampled = read_samples(sampled, stacks, nodes, self._losses)
        has_leaf = leaf.any()
        if not (has_leaf or said.any()):
            return stacks.tables(), np.broadcast_to(0, len(trace))
        rows = stacks.of_texts(np.where(leaf > 0, 0, said), trace.labels)
        if has_leaf:
            rows = np.where(leaf > 0, stacks.of_nodes(leaf, trace.labels, nodes, self._losses), rows)
        return stacks.tables(), rows

    def _has(self, flag: int) -> Array:
        has: Array = self._flags & flag != 0
        return has

    def _places(self, phases: str, mask: Array) -> Array:
        return np.flatnonzero(mask & np.isin(self._phase, [ord(phase) for phase in phases]))

    def _threads(self) -> Threads:
        """The thread of each event of the trace."""
        pid_text, tid_text = self._has(lib.PLN_TRACE_PID_TEXT), self._has(lib.PLN_TRACE_TID_TEXT)
        pid, tid = self._trace.column("pid"), self._trace.column("tid")
        return Threads.number(pid, tid, pid_text, tid_text, self._trace.labels)

    def _events(self, host: HostEvents, threads: Threads, stacks: Array) -> Columns:
        trace, count = self._trace, len(host.place)
        rows = _indices(host.place, len(trace))
        columns: Columns = {
            "pid": threads.pid[rows],
            "tid": threads.tid[rows],
            "start_ns": host.start_ns if self._own is None else self._own.clock(host.start_ns),
            "end_ns": host.end_ns if self._own is None else self._own.clock(host.end_ns),
            "kind": host.kind,
            "flags": host.flags,
            "source": np.full(count, CONSTANTS["PLN_SOURCE_TORCH"], np.uint16),
            "name": trace.column("name")[rows],
            "category": labels(trace.column("category")[rows], trace.labels, lambda name: _CATEGORIES.get(name, name)),
        }
        for name in _COPIED:
            columns[name] = trace.column(name)[rows]
        if self._own is None and host.end_place is not host.place:
            columns["attributes"] = self._joined(columns["attributes"], host)
        # A backward operator is told by the thread of its forward one.
        scope = np.where(columns["category"].isin("user_annotation"), 7, columns["fwd_thread"] > 0)
        columns["scope"] = scope.astype(np.int16)
        if host.end_place is not host.place:
            columns["end_tid"] = threads.tid[host.end_place]
        if stacks.any():
            columns["stack"] = stacks[rows]
        if self._own is None:
            return events_table(columns, self._losses)
        known = self._own.restore_events(columns, host.place)
        thread = columns["pid"].astype(np.uint64) << np.uint64(32) | columns["tid"]
        order = time_order(columns["start_ns"], columns["end_ns"], thread)
        events = events_table(columns, self._losses)
        self._own.finish_events(events, known, host.place, order)
        return events

    def _joined(self, attributes: Array, host: HostEvents) -> Array:
        """The attributes of ranges, with what the events say that end them."""
        texts = self._trace.strings
        at_end = np.where(host.end_place != host.place, self._trace.column("attributes")[host.end_place], 0)
        place, which = distinct(attributes, at_end)
        numbers = []
        for begin, end in zip(attributes[place].tolist(), at_end[place].tolist()):
            if begin and end and begin != end:
                texts.append(_merged(texts[begin], texts[end]))
            numbers.append(len(texts) - 1 if begin and end and begin != end else begin or end)
        return np.array(numbers, attributes.dtype)[which]

    def _activities(self, places: Array, threads: Threads, events: Columns) -> Columns:
        trace = self._trace
        is_open = self._has(lib.PLN_TRACE_NO_END)[places] & (self._phase[places] == ord("X"))
        self._losses.add("bad_durations", int(np.count_nonzero(is_open)), "work of devices without one, taken as 0")
        usable, start, end = clean_times(
            trace.column("start_ns")[places], trace.column("duration_ns")[places], self._losses
        )
        places = places[usable]
        pid, tid = threads.pid[places], threads.tid[places]
        names = trace.column("name")[places]
        is_memory = names == (trace.strings.index(_MEMORY) if _MEMORY in trace.strings else -1)
        device, stream = trace.column("device")[places], trace.column("stream")[places]
        unnamed = (device < 0) & ~is_memory  # Kineto's tracks of a device have its number as pid, the stream's as tid
        columns: Columns = {
            "kind": _kinds(trace.column("category")[places], is_memory, trace.labels),
            "name": names,
            "start_ns": start,
            "end_ns": end,
            "device": np.where(unnamed, pid.astype(np.int32), device),
            "stream": np.where(unnamed | is_memory, tid, stream),  # of memory the thread that allocated it
            **{name: trace.column(name)[places] for name in ("correlation", "context", "bytes", "attributes")},
        }
        columns["launch"] = launches(events, columns["correlation"])
        columns["event"] = causes(events, columns["launch"], trace.column("external_id")[places])
        if is_memory.any():
            within = enclosing(events, pid[is_memory], tid[is_memory], start[is_memory])
            columns["event"][is_memory] = within
        return activities_table(columns)

    def _add_memory(self, events: Columns, activities: Columns) -> None:
        """Gives each event what was allocated while it ran, by any thread, as torch's profiler does."""
        is_memory = activities["kind"].isin("memory")
        for name, mask in (("cpu_memory", activities["device"] < 0), ("device_memory", activities["device"] >= 0)):
            rows = np.flatnonzero(is_memory & mask)
            if not len(rows):
                continue
            at_ns = activities["start_ns"][rows]
            sums = np.concatenate([[0], np.cumsum(activities["bytes"][rows])])
            first = np.searchsorted(at_ns, events["start_ns"], side="left")
            last = np.searchsorted(at_ns, events["end_ns"], side="right")
            events[name] = sums[last] - sums[first]

    def _places_tables(self, metadata: Array, threads: Threads, pids: set[int]) -> Tables:
        """The tables ``processes`` and ``threads``, of these processes."""
        texts = self._trace.labels
        processes: dict[int, str] = {}
        names = {thread: name for thread, name in threads.names.items() if thread[0] in pids}
        columns = (self._trace.column("name")[metadata], self._trace.column("attributes")[metadata])
        where = (threads.pid[metadata], threads.tid[metadata])
        for kind, attributes, pid, tid in zip(*(column.tolist() for column in (*columns, *where))):
            if pid in pids and texts[kind] == "process_name":
                processes[pid] = _name(texts[attributes]) or processes.get(pid, "")
            elif pid in pids and texts[kind] == "thread_name":
                names[pid, tid] = _name(texts[attributes]) or names.get((pid, tid), "")
        return {"processes": processes_table(processes), "threads": threads_table(names)}

    def _meta(self, spans: Array) -> dict[str, Any]:
        members = dict(self._trace.members)
        base_ns = members.get("baseTimeNanoseconds")
        has_base = isinstance(base_ns, int) and abs(base_ns) < TIME_MAX_NS
        columns = [self._trace.column(name)[spans] for name in ("name", "start_ns", "duration_ns")]
        texts = self._trace.strings
        self._losses.add("spans", len(spans) - _SPANS_MAX, "spans of the profiler itself beyond the first")
        return {
            "realtime_offset_ns": base_ns if has_base else 0,
            "host": text(members, "host_name") or "",
            "spans": [
                {"name": texts[name], "start_ns": start, "duration_ns": duration}
                for name, start, duration in list(zip(*(values.tolist() for values in columns)))[:_SPANS_MAX]
            ],
            "trace": members,
        }


def _indices(places: Array, count: int) -> Array | slice:
    """The same places as a slice, which copies nothing, where they are all, in order."""
    return slice(None) if len(places) == count and bool((places[1:] > places[:-1]).all()) else places


def _name(attributes: str) -> str:
    """The name in metadata, "" for none."""
    try:
        members = json.loads(attributes, strict=False)
    except (ValueError, RecursionError):
        return ""
    return (text(members, "name") or "") if isinstance(members, dict) else ""


def _merged(begin: str, end: str) -> str:
    """Two JSON objects as one: what both have is as the second says."""
    try:
        return json.dumps({**json.loads(begin, strict=False), **json.loads(end, strict=False)}, ensure_ascii=False)
    except (ValueError, RecursionError):
        return f"{begin[:-1]},{end[1:]}"


def _kinds(category: Array, is_memory: Array, texts: list[str]) -> Labels:
    kinds = labels(category, texts, lambda name: _KINDS.get(name, name or "user_annotation"))
    if not is_memory.any():
        return kinds
    return Labels(np.where(is_memory, len(kinds.texts), kinds.codes).astype(np.int32), (*kinds.texts, "memory"))
