"""The ranges and marks of a trace's host side, whichever way the trace writes them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pillion._native import lib
from pillion._tables import Array
from pillion.importers.assembly import clean_times
from pillion.importers.distinct import distinct
from pillion.importers.losses import Losses
from pillion.importers.pairs import Pairs, pair
from pillion.importers.trace_json import TraceJson
from pillion_probes.layout import CONSTANTS

_READ = b"XiIRBEbeM"
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
    """Complete events (X), instants (i, I, R) and pairs: B and E on a thread, b and e by their id."""
    on_host = trace_flags & _NOT_HOST == 0
    is_known = np.isin(phase, np.frombuffer(_READ, np.uint8)) & (
        on_host | np.isin(phase, np.frombuffer(b"XiIM", np.uint8))
    )
    losses.add("unread_events", int(np.count_nonzero(~is_known)), f"events of other phases than {_READ.decode()}")
    deep = np.count_nonzero(trace_flags & lib.PLN_TRACE_TOO_DEEP)
    losses.add("too_deep", int(deep), "events with members that are nested too deeply")
    start, duration = trace.column("start_ns"), trace.column("duration_ns")
    start[trace_flags & lib.PLN_TRACE_NO_START != 0] = np.iinfo(np.int64).min  # no time that can be
    parts = [
        _single(np.flatnonzero(on_host & np.isin(phase, [ord(c) for c in "XiIR"])), phase, start, duration, losses)
    ]
    for begin, end, by_id in ((ord("B"), ord("E"), False), (ord("b"), ord("e"), True)):
        places = np.flatnonzero(on_host & ((phase == begin) | (phase == end)))
        if len(places):
            places = places[clean_times(start[places], np.zeros(len(places), np.int64), losses)[0]]
            names = ("category", "id", "name") if by_id else ("pid", "tid")
            keys = distinct(*(trace.column(name)[places] for name in names))[1]
            pairs = pair(places, phase[places] == begin, keys, start[places])
            losses.add("lonely_ends", len(pairs.lonely), "ends of ranges that never began")
            parts.append(_paired(pairs, start, by_id, losses))
    if len(parts) == 1:
        return parts[0]
    columns = [np.concatenate(columns) for columns in zip(*parts)]
    order = np.argsort(columns[0], kind="stable")  # what is equal in time stays as it is in the trace
    return HostEvents(*(column[order] for column in columns))


def _single(places: Array, phase: Array, start: Array, duration: Array, losses: Losses) -> HostEvents:
    usable, start_ns, end_ns = clean_times(start[places], duration[places], losses)
    places = places if usable.all() else places[usable]
    is_range = phase[places] == ord("X")
    kind = np.where(is_range, CONSTANTS["PLN_RANGE"], CONSTANTS["PLN_MARK"]).astype(np.uint16)
    return HostEvents(places, places, start_ns, np.where(is_range, end_ns, start_ns), kind, np.zeros_like(kind))


def _paired(pairs: Pairs, start: Array, is_async: bool, losses: Losses) -> HostEvents:
    is_open = pairs.end < 0
    losses.add("unfinished", int(np.count_nonzero(is_open)), "ranges without an end, taken to last to the end")
    end_place = np.where(is_open, pairs.begin, pairs.end)
    known = start[start > np.iinfo(np.int64).min]
    start_ns = start[pairs.begin]
    end_ns = np.where(is_open, max(int(known.max()), 0) if len(known) else 0, start[end_place])
    kind = np.full(len(start_ns), CONSTANTS["PLN_RANGE"], np.uint16)
    flags = np.where(is_open, CONSTANTS["PLN_UNFINISHED"], 0) | (CONSTANTS["PLN_ASYNC"] if is_async else 0)
    return HostEvents(pairs.begin, end_place, start_ns, np.maximum(end_ns, start_ns), kind, flags.astype(np.uint16))
