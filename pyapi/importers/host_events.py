"""The ranges and marks of a trace's host side, whichever way the trace writes them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pillion._native import lib
from pillion._tables import Array
from pillion.importers.assembly import clean_times
from pillion.importers.distinct import distinct
from pillion.importers.losses import Losses
from pillion.importers.pairs import Pairs, pair_named
from pillion.importers.trace_json import TraceJson
from pillion_probes.layout import CONSTANTS

_READ = b"XiIRnBEbeSFM"
_SINGLE = tuple(b"XiIRn")
# Begins, ends, and whether these belong together by their id; S and F are what b and e were called.
_PAIRED = ((b"B", b"E", False), (b"bS", b"eF", True))
_UNFINISHED = "ranges without an end, taken to last to the end"
_NOT_HOST = lib.PLN_TRACE_DEVICE | lib.PLN_TRACE_PID_TEXT


class HostEvents(NamedTuple):
    """Columns of ranges and marks.

    Attributes:
        place: of the event in the trace that begins each.
        end_place: of the event that ends it; the same one where one event says both.
        start_ns, end_ns: int64.
        kind, flags: of the table events.
    """

    place: Array
    end_place: Array
    start_ns: Array
    end_ns: Array
    kind: Array
    flags: Array


def host_events(trace: TraceJson, phase: Array, trace_flags: Array, losses: Losses) -> HostEvents:
    """Complete events (X), instants (i, I, R, n) and pairs: B and E on a thread, b and e, S and F by their id."""
    on_host = trace_flags & _NOT_HOST == 0
    is_known = np.isin(phase, np.frombuffer(_READ, np.uint8)) & (
        on_host | np.isin(phase, np.frombuffer(b"XiIM", np.uint8))
    )
    losses.add("unread_events", int(np.count_nonzero(~is_known)), f"events of other phases than {_READ.decode()}")
    deep = np.count_nonzero(trace_flags & lib.PLN_TRACE_TOO_DEEP)
    losses.add("too_deep", int(deep), "events with members that are nested too deeply")
    start, duration = trace.column("start_ns"), trace.column("duration_ns")
    start[trace_flags & lib.PLN_TRACE_NO_START != 0] = np.iinfo(np.int64).min  # no time that can be
    is_open = (trace_flags & lib.PLN_TRACE_NO_END != 0) & (phase == ord("X"))
    single = np.flatnonzero(on_host & np.isin(phase, _SINGLE))
    parts = [_single(single, phase, start, duration, is_open, losses)]
    for begins, ends, by_id in _PAIRED:
        places = np.flatnonzero(on_host & np.isin(phase, tuple(begins + ends)))
        if len(places):
            places = places[clean_times(start[places], np.zeros(len(places), np.int64), losses)[0]]
            is_begin = np.isin(phase[places], tuple(begins))
            keys = _ids(trace, places) if by_id else distinct(*(trace.column(it)[places] for it in ("pid", "tid")))[1]
            pairs = pair_named(places, is_begin, keys, start[places], trace.column("name")[places])
            losses.add("lonely_ends", len(pairs.lonely), "ends of ranges that never began")
            parts.append(_paired(pairs, start, by_id, losses))
    if len(parts) == 1:
        return parts[0]
    columns = [np.concatenate(columns) for columns in zip(*parts)]
    order = np.argsort(columns[0], kind="stable")  # what is equal in time stays as it is in the trace
    return HostEvents(*(column[order] for column in columns))


def _ids(trace: TraceJson, places: Array) -> Array:
    """What begins and ends of one range have in common: category and id, of a local one the process too."""
    ids = trace.column("id")[places]
    is_local = np.array(['"local"' in text for text in trace.labels])[ids]
    pid = np.where(is_local, trace.column("pid")[places], 0)
    return distinct(trace.column("category")[places], ids, pid)[1]


def _single(places: Array, phase: Array, start: Array, duration: Array, is_open: Array, losses: Losses) -> HostEvents:
    usable, start_ns, end_ns = clean_times(start[places], duration[places], losses)
    places = places if usable.all() else places[usable]
    is_range = phase[places] == ord("X")
    kind = np.where(is_range, CONSTANTS["PLN_RANGE"], CONSTANTS["PLN_MARK"]).astype(np.uint16)
    end_ns = np.where(is_range, end_ns, start_ns)
    if not is_open[places].any():
        return HostEvents(places, places, start_ns, end_ns, kind, np.zeros_like(kind))
    is_open = is_open[places]
    losses.add("unfinished", int(np.count_nonzero(is_open)), _UNFINISHED)
    end_ns = np.where(is_open, np.maximum(_last(start), start_ns), end_ns)
    flags = np.where(is_open, CONSTANTS["PLN_UNFINISHED"], 0).astype(np.uint16)
    return HostEvents(places, places, start_ns, end_ns, kind, flags)


def _last(start: Array) -> int:
    """When the last event begins, 0 for none."""
    known = start[start > np.iinfo(np.int64).min]
    return max(int(known.max()), 0) if len(known) else 0


def _paired(pairs: Pairs, start: Array, is_async: bool, losses: Losses) -> HostEvents:
    is_open = pairs.end < 0
    losses.add("unfinished", int(np.count_nonzero(is_open)), _UNFINISHED)
    end_place = np.where(is_open, pairs.begin, pairs.end)
    start_ns = start[pairs.begin]
    end_ns = np.where(is_open, _last(start), start[end_place])
    kind = np.full(len(start_ns), CONSTANTS["PLN_RANGE"], np.uint16)
    flags = np.where(is_open, CONSTANTS["PLN_UNFINISHED"], 0) | (CONSTANTS["PLN_ASYNC"] if is_async else 0)
    return HostEvents(pairs.begin, end_place, start_ns, np.maximum(end_ns, start_ns), kind, flags.astype(np.uint16))
