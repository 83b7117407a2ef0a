"""Ranges, operators, calls and marks as elements of a Chrome trace."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pillion._tables import Array, Tables, column
from pillion.export._chrome_args import Args
from pillion.export._chrome_places import place, write_flows
from pillion.export._details import event_details
from pillion.export._json_pieces import Piece, integers, microseconds, parts, picked
from pillion.export._json_rows import Elements, quoted
from pillion.export._links import backward_passes
from pillion.export._rows import Dictionary, words
from pillion.model.tree import is_async
from pillion_probes.layout import CONSTANTS


def write_events(elements: Elements, tables: Tables, start_ns: int) -> None:
    """The events, and flows from operators to their backward passes."""
    events = tables["events"]
    writer = _Events(elements, tables, start_ns)
    is_mark = events["kind"] == CONSTANTS["PLN_MARK"]
    is_crossing = is_async(events) & ~is_mark
    writer.write(b'"X"', np.flatnonzero(~is_mark & ~is_crossing), writer.duration)
    writer.write(b'"i","s":"t"', np.flatnonzero(is_mark))
    pairs = np.flatnonzero(is_crossing)
    writer.write(b'"b"', pairs, writer.row_id)
    writer.write(b'"e"', pairs, writer.row_id, is_end=True)
    links = backward_passes(events)
    for phase, rows in ((b"s", links.source), (b"f", links.target)):
        where = (events["pid"][rows], events["tid"][rows], events["start_ns"][rows] - start_ns)
        write_flows(elements, phase, b"fwdbwd", links.number, *where)


class _Events:
    def __init__(self, elements: Elements, tables: Tables, start_ns: int) -> None:
        self._elements = elements
        self._events = tables["events"]
        self._start_ns = start_ns
        self._names = Dictionary(tables["strings"]["text"], [self._events["name"]], quoted)
        self._labels = column("events", self._events, "category")
        self._args = Args(event_details(tables))

    def write(
        self, phase: bytes, rows: Array, extra: Callable[[Array], Piece] = lambda rows: b"", is_end: bool = False
    ) -> None:
        """Write the rows as elements of a phase, with more members that ``extra`` makes."""
        events = self._events
        tid, time_ns = (events["end_tid"], events["end_ns"]) if is_end else (events["tid"], events["start_ns"])
        heads = words([b',\n{"ph":%b,"cat":%b,"name":' % (phase, quoted(text)) for text in self._labels.texts])
        for part in parts(len(rows)):
            some = rows[part]
            self._elements.write_rows(
                len(some),
                picked(heads, self._labels.codes[some]),
                self._names.piece(events["name"][some]),
                *place(events["pid"][some], tid[some], time_ns[some] - self._start_ns),
                extra(some),
                *([] if is_end else self._args.of(some)),
                b"}",
            )

    def duration(self, rows: Array) -> Piece:
        """``,"dur":…``."""
        ns = np.maximum(self._events["end_ns"][rows] - self._events["start_ns"][rows], 0)
        return microseconds(b',"dur":', ns)

    def row_id(self, rows: Array) -> Piece:
        """``,"id":…``."""
        return integers(b',"id":', rows)
