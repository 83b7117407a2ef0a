"""From the records of what a device did to the table ``activities``, each with the call that started it."""

from __future__ import annotations

import numpy as np

from pillion._order import start_order
from pillion._tables import OPTIONAL, SCHEMAS, Array, Columns, Labels, from_rows
from pillion.merge.activity_kinds import (
    ACTIVITY_KINDS,
    API_KINDS,
    CONTEXT,
    DEVICE,
    EVENT,
    EXTERNAL_CORRELATION,
    MEMORY,
    NAME,
    UNIFIED_MEMORY,
    UNIFIED_MEMORY_BYTES,
)
from pillion.merge.activity_names import activity_names
from pillion.merge.correlations import Correlations
from pillion.merge.devices import Devices
from pillion.merge.launches import causes, find_first, is_call, launches
from pillion.merge.records import Records, Strings, is_one_of, nanoseconds
from pillion.merge.spool import Dropped

_KINDS = tuple(dict.fromkeys(ACTIVITY_KINDS.values()))
_TIMELESS = (DEVICE, CONTEXT, NAME, EXTERNAL_CORRELATION)  # they say something about others
_TIME_MAX_NS = 2**62  # differences of two times below it fit into 64 bits
_WITH_BYTES = ("memcpy", "memset", "memory")
_FREED = 2  # memoryOperationType
_NO_STREAM = 2**32 - 1


def usable(of: Records, dropped: list[Dropped]) -> Records:
    """The activities of kinds that are known and with times that can be; what is dropped is counted.

    An end that cannot be becomes the start. A record of an event need not have a time: it stays, with 0.
    """
    kind = of.records["activity"]
    is_timeless = is_one_of(kind, _TIMELESS)
    is_known = is_one_of(kind, [*ACTIVITY_KINDS, *API_KINDS]) | is_timeless
    unknown = np.unique(kind[~is_known])[:10].tolist()
    _count(dropped, "unknown_activities", ~is_known, f"CUPTI's kinds {', '.join(map(str, unknown))}")
    start = of.records["start_ns"]
    has_time = is_timeless | (kind == EVENT) | ((start > 0) & (start < _TIME_MAX_NS))
    _count(dropped, "bad_times", is_known & ~has_time, "activities without a time that can be")
    of = of.where(is_known & has_time)
    start, end = of.records["start_ns"], of.records["end_ns"]
    is_moment = is_one_of(of.records["activity"], [*_TIMELESS, EVENT, MEMORY]) & (end == 0)
    bad_end = ~is_moment & ((end < start) | (end >= _TIME_MAX_NS))
    _count(dropped, "bad_durations", bad_end, "activities that end before they start, or never: taken as 0 long")
    if bad_end.any():
        of.records["end_ns"][bad_end] = start[bad_end]
    return of


def _count(dropped: list[Dropped], kind: str, mask: Array, place: str) -> None:
    if lost := int(np.count_nonzero(mask)):
        dropped.append(Dropped(kind, lost, place))


def activities_table(
    of: Records,
    events: Columns,
    strings: Strings,
    correlations: Correlations,
    devices: Devices,
    dropped: list[Dropped],
) -> Columns:
    """The table of these activities, sorted by their start.

    Args:
        of: usable ones.
        events: the table, with the calls.
    """
    code_of = np.full(max(ACTIVITY_KINDS) + 1, -1, np.int32)
    for number, kind in ACTIVITY_KINDS.items():
        code_of[number] = _KINDS.index(kind)
    of = of.where(is_one_of(of.records["activity"], ACTIVITY_KINDS))
    correlation = correlations.of_activities(of)
    launch = launches(events, correlation)
    placeless = (of.records["start_ns"] == 0) & (launch < 0)
    _count(dropped, "bad_times", placeless, "records of events without a time and without a call")
    if placeless.any():
        of, correlation, launch = of.where(~placeless), correlation[~placeless], launch[~placeless]
    if not len(of.records):
        return from_rows("activities", ())
    records = of.records
    start, end = _times(of, events, launch)
    stream = records["stream"].astype(np.int64)
    columns: Columns = {
        "kind": Labels(code_of[records["activity"]], _KINDS),
        "name": activity_names(of, strings),
        "start_ns": start,
        "end_ns": end,
        "device": devices.of(of),
        "stream": np.where(stream == _NO_STREAM, -1, stream),
        "correlation": correlation,
        "event": causes(events, launch),
        "context": records["context"].astype(np.int64),
        "launch": launch,
        "bytes": _bytes(of),
        "attributes": strings.rows(records["attributes"], of.region),
    }
    order = start_order(start)
    table: Columns = {"kind": columns["kind"] if order is None else columns["kind"].take(order)}
    for name, kind in SCHEMAS["activities"].items():
        silent = OPTIONAL["activities"].get(name)
        if name != "kind" and (silent is None or (columns[name] != silent).any()):
            values = columns[name] if order is None else columns[name][order]
            table[name] = values.astype(kind, copy=False)
    return table


def _times(of: Records, events: Columns, launch: Array) -> tuple[Array, Array]:
    """Start and end; a record of an event that has no time has that of its call."""
    start, end = nanoseconds(of.records["start_ns"]), nanoseconds(of.records["end_ns"])
    untimed = np.flatnonzero((start == 0) & (launch >= 0))
    start[untimed] = events["start_ns"][launch[untimed]]
    return start, np.maximum(start, end)


def _bytes(of: Records) -> Array:
    """Bytes copied, set or allocated; freed ones are negative."""
    kind, detail = of.records["activity"], of.records["detail"]
    counts = is_one_of(kind, [number for number, text in ACTIVITY_KINDS.items() if text in _WITH_BYTES])
    counts |= (kind == UNIFIED_MEMORY) & np.isin(detail, UNIFIED_MEMORY_BYTES)
    size = np.where(counts, nanoseconds(of.records["value"]), 0)
    return np.where((kind == MEMORY) & (detail == _FREED), -size, size)


def add_external_ids(of: Records, events: Columns, correlations: Correlations) -> None:
    """Gives calls the column ``external_id`` where another library has told the driver a number of its own."""
    told = of.where(of.records["activity"] == EXTERNAL_CORRELATION)
    if not len(told.records):
        return
    launch = launches(events, correlations.of_activities(told))
    known = launch >= 0
    events["external_id"] = np.zeros(len(events["id"]), np.int64)
    events["external_id"][launch[known]] = nanoseconds(told.records["value"])[known]


def doubtful_launches(events: Columns) -> int:
    """How many calls have the number of another that does not enclose them: which of them started what is unsure."""
    if "correlation" not in events:
        return 0
    calls = np.flatnonzero(is_call(events) & (events["correlation"] != 0))
    numbers = events["correlation"][calls]
    first = find_first(numbers, numbers)
    others = np.flatnonzero(first != np.arange(len(calls)))
    calls, first = calls[others], calls[first[others]]
    same_thread = (events["pid"][calls] == events["pid"][first]) & (events["tid"][calls] == events["tid"][first])
    encloses = same_thread & (events["end_ns"][calls] <= events["end_ns"][first])
    return int(np.count_nonzero(~encloses))
