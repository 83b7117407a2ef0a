"""torch's trace and Pillion's own recording of the same time become one set of tables.

Both name threads by their system id and tell time by clocks that are steps apart: torch's ranges and operators and
Pillion's ranges nest by time on their thread, whoever recorded them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pillion._order import time_order
from pillion._tables import Array, Columns, Labels, Tables, column, length, text_column
from pillion.merge.ranges import enclosing
from pillion.model import Detail
from pillion.model.memory import MEMORY_EVENT_NAME as MEMORY
from pillion.model.memory import in_any_interval, sums_in_intervals
from pillion.model.nesting import depths, nested_among
from pillion.torch_engine.activities import (
    MEMORY_DEVICES,
    TorchActivities,
    device_detail,
    device_rows,
    has_device_work,
    join_activities,
    kept_activities,
    operators,
    torch_activities,
)
from pillion.torch_engine.texts import AppendedTexts, append_stacks
from pillion.torch_engine.trace import TorchTrace, lazy_reader
from pillion_probes.layout import CONSTANTS


class Joined(NamedTuple):
    """Tables, and what the lists of their events know beyond them."""

    tables: Tables
    detail: Detail


def join(
    tables: Tables,
    trace: TorchTrace,
    result: Any,
    *,
    pid: int,
    offset_ns: int,
    use_device: str | None,
    pauses_ns: Sequence[Sequence[int]] = (),
) -> Joined:
    """Adds torch's trace to the tables of a recording.

    Args:
        result: what the trace was read from; seldom attributes are read when they are asked for.
        offset_ns: torch's clock less CLOCK_MONOTONIC.
        pauses_ns: beginnings and ends, by torch's clock: operators and ranges that began there are left out.
    """
    texts = AppendedTexts(tables["strings"]["text"].tolist(), trace.texts)
    stack_tables, stack_rows = append_stacks(tables, trace.stacks)
    on_cpu = trace.columns["device_type"] == 0
    on_cpu[trace.memory] = False
    ranges, devices = np.flatnonzero(on_cpu), device_rows(trace, ~on_cpu)
    ours = _kept_rows(tables["events"], pid, has_device_work(trace, devices))
    if pauses_ns:
        is_function = trace.columns["kind"].isin("python_function")[ranges]
        ranges = ranges[is_function | ~_paused(trace.columns["start_ns"][ranges], pauses_ns)]
        start_ns = tables["events"]["start_ns"][ours] + offset_ns
        ours = ours[(tables["events"]["pid"][ours] != pid) | ~_paused(start_ns, pauses_ns)]
    threads = _linked_threads(trace, ranges)
    merged, order = _events(tables["events"], ours, trace, ranges, texts, stack_rows, pid, offset_ns)
    is_hidden = _in_order(_joined(np.zeros(len(ours), bool), _taken(trace.hidden, ranges)), order)
    outside = _add_memory(merged, is_hidden, trace, offset_ns)
    place = _places(order, len(is_hidden))
    row_of_source = np.full(len(trace.hidden), -1)
    row_of_source[ranges] = place[len(ours) :]
    number = _in_order(_joined(_numbers_for(len(ours), trace), _taken(trace.columns["number"], ranges)), order)
    if len(ours):
        merged["external_id"] = np.where(merged["external_id"] == 0, number, merged["external_id"])
    own_threads = _torch_threads(tables["events"]["tid"][ours], trace, ranges)
    sources = _in_order(_joined(np.full(len(ours), -1, np.int32), ranges.astype(np.int32)), order)
    moved = np.full(length(tables["events"]) + 1, -1)  # the last, for −1, stays −1
    moved[ours] = place[: len(ours)]
    of_torch = torch_activities(trace, devices, ranges, row_of_source, texts, offset_ns)
    work = join_activities(
        TorchActivities(of_torch, devices, device_detail(trace, devices, outside)),
        kept_activities(tables, moved, merged, pid, has_device_work(trace, devices)),
        is_listed=use_device is not None,
    )
    joined: Tables = {
        **tables,
        **stack_tables,
        "events": merged,
        "activities": work.table,
        "strings": {"id": np.arange(len(texts.all)), "text": text_column(texts.all)},
        "samples": _attributed(tables["samples"], "ts_ns", moved, merged),
        "waits": _attributed(tables["waits"], "start_ns", moved, merged),
    }
    kernel_ns = trace.columns.get("kernel_ns")
    read = lazy_reader(result, np.concatenate([sources, work.source]))
    if kernel_ns is not None and kernel_ns.any():
        launched = np.append(kernel_ns, 0)[sources]
        legacy: Array | None = launched > 0
        lazily = read

        def read(name: str) -> Any:
            return launched if name == "kernel_ns" else lazily(name)
    else:
        legacy = None
    detail = Detail(
        use_device=use_device,
        thread=_in_order(_joined(own_threads, _taken(threads, ranges)), order),
        number=number,
        hidden=is_hidden if is_hidden.any() else None,
        legacy=legacy,
        device=work.detail,
        read=read,
    )
    return Joined(joined, detail)


def _paused(start_ns: Array, pauses_ns: Sequence[Sequence[int]]) -> Array:
    begins, ends = np.array(pauses_ns, np.int64).T
    return in_any_interval(begins, ends, start_ns)


def _taken(values: Array, rows: Array) -> Array:
    """These rows, which ascend; without a copy where they are all: a trace is hundreds of megabytes."""
    return values if len(rows) == len(values) else values[rows]


def _joined(first: Array, second: Array) -> Array:
    return np.concatenate([first, second]) if len(first) else second


def _in_order(values: Array, order: Array | None) -> Array:
    return values if order is None else values[order]


def _places(order: Array | None, count: int) -> Array:
    """Where each row is in the order."""
    if order is None:
        return np.arange(count)
    places = np.empty(count, np.int64)
    places[order] = np.arange(count)
    return places


def _attributed(columns: Columns, time: str, moved: Array, events: Columns) -> Columns:
    """Samples or waits, each with the innermost range or operator of its moment."""
    innermost = enclosing(events, columns["pid"], columns["tid"], columns[time])
    event = np.where(innermost >= 0, innermost, moved[columns["event"]])
    names = np.where(event >= 0, events["name"][event], columns["range_name"]) if len(events["name"]) else event
    return {**columns, "event": event, "range_name": names.astype(np.int32)}


def _kept_rows(events: Columns, pid: int, has_work: bool) -> Array:
    """Rows of Pillion's own: what torch saw of its process as well is torch's to tell.

    Args:
        has_work: torch tells of work of devices, and so of the calls that started it.
    """
    twice = [CONSTANTS["PLN_SOURCE_TORCH"], *([CONSTANTS["PLN_SOURCE_CUDA"]] if has_work else [])]
    return np.flatnonzero(~np.isin(events["source"], twice) | (events["pid"] != pid))


def _linked_threads(trace: TorchTrace, ranges: Array) -> Array:
    """torch's thread of each event; a call into a runtime has that of the operator that made it."""
    thread: Array = trace.columns["thread"].copy()
    linked = trace.columns["linked"]
    calls = ranges[linked[ranges] > 0]
    causes = operators(trace, ranges, linked[calls])
    thread[calls[causes >= 0]] = thread[causes[causes >= 0]]
    return thread


def _numbers_for(count: int, trace: TorchTrace) -> Array:
    """Ids for ranges that torch did not number."""
    return int(trace.columns["number"].max(initial=0)) + 1 + np.arange(count)


def _torch_threads(tid: Array, trace: TorchTrace, ranges: Array) -> Array:
    """torch's numbers of threads, the system's where torch saw nothing of the thread."""
    known, first = np.unique(trace.columns["tid"][ranges], return_index=True)
    if not len(known):
        return tid.astype(np.int64)
    at = np.minimum(np.searchsorted(known, tid), len(known) - 1)
    return np.where(known[at] == tid, trace.columns["thread"][ranges[first[at]]], tid)


def _events(
    events: Columns,
    ours: Array,
    trace: TorchTrace,
    ranges: Array,
    texts: AppendedTexts,
    stack_rows: Array,
    pid: int,
    offset_ns: int,
) -> tuple[Columns, Array | None]:
    """The events table of both, and its order: first ours, then torch's; None where they are in order so."""
    of, count = trace.columns, len(ranges)
    tid = (_taken(of["tid"], ranges) & 0xFFFFFFFF).astype(np.uint32)
    start_ns = _taken(of["start_ns"], ranges) - offset_ns
    linked, number = _taken(of["linked"], ranges), _taken(of["number"], ranges)
    torch_columns: Columns = {
        "pid": np.full(count, pid, np.uint32),
        "tid": tid,
        "name": texts.rows[_taken(of["name"], ranges)],
        "start_ns": start_ns,
        "end_ns": np.maximum(_taken(of["end_ns"], ranges) - offset_ns, start_ns),
        "kind": np.full(count, CONSTANTS["PLN_RANGE"], np.uint16),
        "flags": _taken(of["is_async"], ranges).astype(np.uint16) * np.uint16(CONSTANTS["PLN_ASYNC"]),
        "source": np.full(count, CONSTANTS["PLN_SOURCE_TORCH"], np.uint16),
        "args": np.zeros(count, np.int32),
        "end_tid": tid,
        "value": np.zeros(count, np.uint64),
        "scope": _taken(of["scope"], ranges),
        "sequence_nr": _taken(of["sequence_nr"], ranges),
        "fwd_thread": _taken(of["fwd_thread"], ranges),
        "correlation": np.where(linked > 0, number, 0),
        "external_id": np.where(linked > 0, linked, number),
    }
    for name in ("overload", "shapes"):
        if name in of:
            torch_columns[name] = texts.rows[_taken(of[name], ranges)]
    if "stack" in of:
        torch_columns["stack"] = stack_rows[_taken(of["stack"], ranges)]
    if "flops" in of:
        torch_columns["flops"] = _taken(of["flops"], ranges)
    if "stack" in events:  # of calls into CUDA that Pillion itself saw
        torch_columns.setdefault("stack", np.zeros(count, np.int64))
    merged: Columns = {
        name: _joined(column("events", events, name)[ours], torch_columns.pop(name)) for name in list(torch_columns)
    }
    thread = (merged["pid"].astype(np.uint64) << np.uint64(32)) | merged["tid"]
    order = time_order(merged["start_ns"], merged["end_ns"], thread)
    for name in list(merged):
        merged[name] = _in_order(merged.pop(name), order)
    merged["category"] = _category(column("events", events, "category").take(ours), of["kind"].take(ranges), order)
    merged["id"] = np.arange(len(thread))
    is_sync = merged["flags"] & CONSTANTS["PLN_ASYNC"] == 0
    parents = nested_among(is_sync, merged["start_ns"], merged["end_ns"], _in_order(thread, order))
    merged["parent"], merged["depth"] = parents.astype(np.int64), np.minimum(depths(parents), 65535).astype(np.uint16)
    return merged, order


def _add_memory(events: Columns, is_hidden: Array, trace: TorchTrace, offset_ns: int) -> Array:
    """Adds what was allocated during each event, whoever recorded it; returns the memory records in no event."""
    memory = trace.memory
    if not len(memory):
        return memory
    of = trace.columns
    time_ns, size = of["start_ns"][memory] - offset_ns, of["bytes"][memory]
    is_allocation = of["name"][memory] == trace.texts.index(MEMORY) if MEMORY in trace.texts else memory < 0
    shown = np.flatnonzero(~is_hidden)
    start, end = events["start_ns"][shown], events["end_ns"][shown]
    for name, devices in MEMORY_DEVICES.items():
        counted = is_allocation & np.isin(of["device_type"][memory], devices)
        events[name] = np.zeros(len(is_hidden), np.int64)
        events[name][shown] = sums_in_intervals(start, end, time_ns[counted], size[counted])
    return memory[~(in_any_interval(start, end, time_ns) & is_allocation)]


def _category(ours: Labels, torch_kinds: Labels, order: Array | None) -> Labels:
    names = list(dict.fromkeys((*ours.texts, *torch_kinds.texts)))
    codes = [
        np.array([names.index(text) for text in labels.texts], np.int32)[labels.codes] for labels in (ours, torch_kinds)
    ]
    return Labels(_in_order(np.concatenate(codes), order), tuple(names))
