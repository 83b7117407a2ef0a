"""What a Chrome trace of ours says beyond Kineto's keys, so that importing it gives the same tables.

An import takes most columns from what Kineto's keys say: parents from the times, the launch of a kernel from its
correlation, the range of a sample from the moment. Where a capture knows it otherwise, the row says so in ``args``,
under keys that begin with ``pillion.``; rows of tables are meant, which the trace has in their order. The member
``pillionTables`` says how many of each there are, and holds what has no place among the events.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion._tables import SCHEMAS, Array, Columns, Labels, Tables, column, length
from pillion.export._details import Detail
from pillion.merge.launches import causes, launches
from pillion.merge.ranges import enclosing
from pillion.model.column_event import ACTIVITY_TYPES
from pillion.model.nesting import depths, nested_among
from pillion.model.tree import is_async
from pillion_probes.layout import CONSTANTS

PREFIX = "pillion."
TABLES = "pillionTables"
ROW_TABLES = ("events", "activities", "waits", "samples")  # in the order in which a trace has them
WHOLE_TABLES = ("processes", "threads")
CATEGORIES = {**ACTIVITY_TYPES, "memory": "cpu_instant_event"}  # of kinds of activities

_USER_SCOPE = 7  # at::RecordScope
_SAME = -(2**62)  # no value that a column can have


def tables_member(tables: Tables) -> dict[str, Any]:
    """The member ``pillionTables``: rows of the tables, the source of most events of each category, whole tables."""
    member: dict[str, Any] = {
        "rows": {name: length(tables[name]) for name in ROW_TABLES},
        "sources": usual_sources(tables["events"]),
    }
    for name in WHOLE_TABLES:
        columns = {key: tables[name][key].tolist() for key in SCHEMAS[name]}
        member[name] = [dict(zip(columns, row)) for row in zip(*columns.values())]
    return member


def usual_sources(events: Columns) -> dict[str, int]:
    """Category to the source that most of its events have."""
    category: Labels = column("events", events, "category")
    breadth = int(events["source"].max(initial=0)) + 1
    pairs = np.bincount(category.codes * breadth + events["source"], minlength=len(category.texts) * breadth)
    counts = pairs.reshape(-1, breadth)
    usual = zip(category.texts, counts.argmax(axis=1).tolist(), (counts.max(axis=1) > 0).tolist())
    return {text: source for text, source, is_used in usual if is_used}


def sources_of(category: Labels, sources: dict[str, int]) -> Array:
    """The source of each event, if it is the usual one of its category."""
    return np.array([sources.get(text, 0) for text in category.texts], np.int64)[category.codes]


def scopes_of(category: Labels, fwd_thread: Array) -> Array:
    """The scope of each event as Kineto's traces tell it: a backward operator by the thread of its forward one."""
    return np.where(category.isin("user_annotation"), _USER_SCOPE, fwd_thread > 0).astype(np.int16)


def event_differences(tables: Tables) -> list[Detail]:
    """Of events: source, scope, flags, parent and depth."""
    events = tables["events"]
    category = column("events", events, "category")
    scope = scopes_of(category, column("events", events, "fwd_thread"))
    is_crossing = is_async(events) & (events["kind"] != CONSTANTS["PLN_MARK"])
    flags = np.where(is_crossing, CONSTANTS["PLN_ASYNC"], 0) | (events["flags"] & CONSTANTS["PLN_UNFINISHED"])
    thread = events["pid"].astype(np.uint64) << np.uint64(32) | events["tid"]
    ends = np.maximum(events["start_ns"], events["end_ns"])
    parent = nested_among(~is_crossing, events["start_ns"], ends, thread)
    found = [
        _differing("source", events["source"], sources_of(category, usual_sources(events))),
        _differing("scope", column("events", events, "scope"), scope),
        _differing("flags", events["flags"], flags),
        _differing("parent", events["parent"], parent),
        _differing("depth", events["depth"], depths(events["parent"])),
    ]
    return [it for it in found if it is not None]


def activity_differences(tables: Tables) -> list[Detail]:
    """Of activities: the call that launched them and the range that caused them."""
    events, activities = tables["events"], tables["activities"]
    if not length(activities):
        return []
    launch, event = column("activities", activities, "launch"), activities["event"]
    external_id = np.zeros(len(event), np.int64)
    if "external_id" in events and length(events):
        external_id = np.where(event >= 0, events["external_id"][event], 0)
    found = [
        _differing("launch", launch, launches(events, activities["correlation"])),
        _differing("event", event, causes(events, launch, external_id)),
    ]
    return [it for it in found if it is not None]


def moment_differences(tables: Tables, table: str) -> list[Detail]:
    """Of samples and waits: flags, the range in which they were, and its name where the range is not known."""
    rows, events = tables[table], tables["events"]
    at_ns = rows["ts_ns" if table == "samples" else "start_ns"]
    event = rows["event"]
    unknown = np.where(rows["range_name"] == range_names(events, event), 0, rows["range_name"])
    found = [
        Detail(f"{PREFIX}flags", rows["flags"].astype(np.int64)),
        _differing("event", event, enclosing(events, rows["pid"], rows["tid"], at_ns)),
        Detail(f"{PREFIX}range", unknown, texts=tables["strings"]["text"]),
    ]
    return [it for it in found if it is not None]


def range_names(events: Columns, event: Array) -> Array:
    """The names of these events, 0 for none."""
    name = np.zeros(len(event), np.int32)
    name[event >= 0] = events["name"][event[event >= 0]]
    return name


def _differing(key: str, values: Array, implied: Array) -> Detail | None:
    differs = values != implied
    if not differs.any():
        return None
    return Detail(PREFIX + key, np.where(differs, values.astype(np.int64), _SAME), silent=_SAME)
