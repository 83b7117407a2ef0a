"""From a spool to the tables of a capture: strings unified, parents, samples and device work joined to their ranges.

A range is named by (region, tid, seq), a call into CUDA also by (region, epoch, its number). Nothing is joined by time,
except that the region of a sample is the one that its process had at that moment. All of it is numpy over columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pillion._tables import Array, Columns, Tables, text_column
from pillion.merge.activities import (
    activities_table,
    add_external_ids,
    doubtful_launches,
    usable,
)
from pillion.merge.api_calls import calls_of_activities
from pillion.merge.call_stacks import add_call_stacks
from pillion.merge.correlations import Correlations
from pillion.merge.devices import Devices
from pillion.merge.events import EVENT_KINDS, Events, events_table, hosts_of, joined_hosts
from pillion.merge.inventory import (
    capture_meta,
    losses_table,
    processes_table,
    region_starts,
    stack_tables,
    threads_table,
)
from pillion.merge.notices import notices, notices_of_processes
from pillion.merge.ranges import enclosing, region_at
from pillion.merge.records import Records, Strings, joined, nanoseconds, rows_of, taken
from pillion.merge.spool import SAMPLE_DTYPE, Dropped, Spool, StructArray
from pillion_probes.layout import CONSTANTS


def merge(spool: Spool) -> tuple[Tables, dict[str, Any]]:
    """The tables of a spool, as ``_tables.SCHEMAS`` lays them out, and its meta."""
    dropped: list[Dropped] = []
    strings = Strings(spool, dropped)
    told = _from_records(spool, strings, dropped)
    events = told.events
    frames, stacks, stack_ids, stack_rows, bad_stacks = stack_tables(spool)
    regions = list(region_starts(spool))
    sampled = joined(spool.samples, SAMPLE_DTYPE)
    samples, waits, calls = (_of_kind(sampled, kind) for kind in ("PLN_SAMPLE", "PLN_WAIT", "PLN_CALL"))
    made = _named(calls, _regions(calls, regions), events)
    add_call_stacks(events.table, made, rows_of(calls["stack"], stack_ids, stack_rows), stacks, frames)
    tables: Tables = {
        "events": events.table,
        "samples": {
            "ts_ns": nanoseconds(samples["start_ns"]),
            "weight_ns": nanoseconds(samples["weight_ns"]),
            "stack": rows_of(samples["stack"], stack_ids, stack_rows),
            **_ranges_of(samples, regions, strings, events),
            **{name: samples[name].copy() for name in ("pid", "tid", "cpu", "flags")},
        },
        "waits": {
            "start_ns": nanoseconds(waits["start_ns"]),
            "end_ns": nanoseconds(waits["end_ns"]),
            "runnable_ns": nanoseconds(waits["weight_ns"]),
            "stack": rows_of(waits["stack"], stack_ids, stack_rows),
            **_ranges_of(waits, regions, strings, events),
            **{name: waits[name].copy() for name in ("pid", "tid", "cpu", "flags", "state", "waker_pid", "waker_tid")},
        },
        "activities": told.activities,
        "stacks": stacks,
        "frames": frames,
        "strings": {"id": np.arange(len(strings.texts)), "text": text_column(strings.texts)},
        "processes": processes_table(spool),
        "threads": threads_table(spool, told.thread_names),
    }
    tables["losses"] = losses_table(spool, dropped + bad_stacks)
    meta = capture_meta(spool, _last_ns(tables))
    more = {"notices": told.notices, "devices": told.devices.listed, "streams": told.devices.streams}
    return tables, meta | {name: listed for name, listed in more.items() if listed}


class _Told(NamedTuple):
    """What the records of jobs tell: what the host did, and what devices did for it.

    Attributes:
        thread_names: (pid, tid) to the name that the thread gave last.
    """

    events: Events
    activities: Columns
    devices: Devices
    thread_names: dict[tuple[int, int], str]
    notices: list[dict[str, Any]]


def _from_records(spool: Spool, strings: Strings, dropped: list[Dropped]) -> _Told:
    kinds = [[CONSTANTS[f"PLN_{kind}"]] for kind in ("THREAD", "NOTICE", "ACTIVITY")]
    threads, told, work, ranges = Records.of_kinds(spool, *kinds, EVENT_KINDS)
    spool.forget_pages()
    names = _thread_names(threads, strings)
    said = notices(told, strings, dropped)
    said = notices_of_processes(spool, said) + said
    done = usable(work.as_activities(), dropped)
    hosts = hosts_of(ranges, strings)
    del work, ranges  # most of the memory; all that is needed of them has been copied
    correlations = Correlations(hosts, done)
    hosts = joined_hosts(hosts, calls_of_activities(done, correlations, strings))
    events = events_table(hosts, correlations, strings)
    devices = Devices(done, strings)
    activities = activities_table(done, events.table, strings, correlations, devices, dropped)
    add_external_ids(done, events.table, correlations)
    if doubtful := doubtful_launches(events.table):
        dropped.append(Dropped("doubtful_launches", doubtful, "calls with the number of another call"))
    return _Told(events, activities, devices, names, said)


def _of_kind(samples: StructArray, kind: str) -> StructArray:
    """Those of a kind, in the order of their time."""
    of = taken(samples, samples["kind"] == CONSTANTS[kind])
    return taken(of, np.argsort(of["start_ns"], kind="stable"))


def _regions(samples: StructArray, regions: list[tuple[int, int, int]]) -> Array:
    return region_at(samples["pid"], nanoseconds(samples["start_ns"]), regions)


def _named(samples: StructArray, region: Array, events: Events) -> Array:
    """The events rows of the ranges that samples name, −1 for none."""
    event = events.ranges.find(np.maximum(region, 0), samples["tid"], samples["range_seq"])
    return np.where(region >= 0, event, -1)


def _ranges_of(samples: StructArray, regions: list[tuple[int, int, int]], strings: Strings, events: Events) -> Columns:
    """The columns ``event`` and ``range_name`` of samples: their innermost ranges.

    A thread publishes its range, and a sample carries it. One that carries none was taken outside all ranges, or in the
    moment in which the collector learnt of the process; times tell these apart, since a record covers its whole range.
    """
    region = _regions(samples, regions)
    event = _named(samples, region, events)
    name = strings.rows(samples["range_name"], region)
    silent = samples["range_seq"] == 0
    quiet = samples[silent]
    event[silent] = enclosing(events.table, quiet["pid"], quiet["tid"], nanoseconds(quiet["start_ns"]))
    found = silent & (event >= 0)
    name[found] = events.table["name"][event[found]]
    return {"event": event, "range_name": name}


def _thread_names(of: Records, strings: Strings) -> dict[tuple[int, int], str]:
    names, texts = strings.rows(of.records["name"], of.region), strings.texts
    threads = zip(of.pid.tolist(), of.records["tid"].tolist())
    return {thread: texts[name] for thread, name in zip(threads, names)}


def _last_ns(tables: Tables) -> int:
    """The last moment of which anything is known."""
    ends = (("events", "end_ns"), ("samples", "ts_ns"), ("waits", "end_ns"), ("activities", "end_ns"))
    columns = [tables[table][name] for table, name in ends]
    return max((int(column.max()) for column in columns if len(column)), default=0)
