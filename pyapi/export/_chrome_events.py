"""Ranges, operators, calls and marks as elements of a Chrome trace."""

from __future__ import annotations

import numpy as np

from pillion._tables import Array, Tables, column, length
from pillion.export._chrome_args import Args
from pillion.export._chrome_own import event_differences
from pillion.export._chrome_places import place, write_flows
from pillion.export._details import event_details
from pillion.export._json_pieces import Piece, integers, microseconds, parts, picked
from pillion.export._json_rows import Elements, quoted
from pillion.export._links import backward_passes
from pillion.export._rows import Dictionary, words
from pillion.export._stack_tree import StackTree
from pillion.model.tree import is_async
from pillion_probes.layout import CONSTANTS


def write_events(elements: Elements, tables: Tables, start_ns: int, tree: StackTree) -> None:
    """The events in the order of their table, the ends of pairs, and flows from operators to their backward passes."""
    events = tables["events"]
    writer = _Events(elements, tables, start_ns, tree)
    writer.write_begins()
    writer.write_ends()
    links = backward_passes(events)
    for phase, rows in ((b"s", links.source), (b"f", links.target)):
        where = (events["pid"][rows], events["tid"][rows], events["start_ns"][rows] - start_ns)
        write_flows(elements, phase, b"fwdbwd", links.number, *where)


_SLICE, _MARK, _PAIR = 0, 1, 2
_PHASES = (b'"X"', b'"i","s":"t"', b'"b"')


class _Events:
    def __init__(self, elements: Elements, tables: Tables, start_ns: int, tree: StackTree) -> None:
        self._elements = elements
        self._events = tables["events"]
        self._start_ns = start_ns
        self._leaf = tree.leaf
        self._names = Dictionary(tables["strings"]["text"], [self._events["name"]], quoted)
        self._labels = column("events", self._events, "category")
        self._args = Args(event_details(tables) + event_differences(tables))
        is_mark = self._events["kind"] == CONSTANTS["PLN_MARK"]
        self._phase = np.where(is_mark, _MARK, np.where(is_async(self._events), _PAIR, _SLICE))

    def write_begins(self) -> None:
        """An element for each event: all of it, or where it begins."""
        events, labels = self._events, self._labels
        heads = words([_head(phase, text) for text in labels.texts for phase in _PHASES])
        stack = column("events", events, "stack")
        for part in parts(length(events)):
            rows = np.arange(part.start, part.stop)
            phase = self._phase[part]
            self._elements.write_rows(
                len(rows),
                picked(heads, labels.codes[part] * len(_PHASES) + phase),
                self._names.piece(events["name"][part]),
                *place(events["pid"][part], events["tid"][part], events["start_ns"][part] - self._start_ns),
                self._duration(part, phase),
                integers(b',"id":', np.where(phase == _PAIR, rows, -1), silent=-1),
                integers(b',"sf":"', self._leaf[stack[part]], silent=-1, after=b'"'),
                *self._args.of(rows),
                b"}",
            )

    def write_ends(self) -> None:
        """The ends of pairs."""
        events, pairs = self._events, np.flatnonzero(self._phase == _PAIR)
        heads = words([_head(b'"e"', text) for text in self._labels.texts])
        for part in parts(len(pairs)):
            rows = pairs[part]
            self._elements.write_rows(
                len(rows),
                picked(heads, self._labels.codes[rows]),
                self._names.piece(events["name"][rows]),
                *place(events["pid"][rows], events["end_tid"][rows], events["end_ns"][rows] - self._start_ns),
                integers(b',"id":', rows),
                b"}",
            )

    def _duration(self, part: slice, phase: Array) -> Piece:
        ns = np.maximum(self._events["end_ns"][part] - self._events["start_ns"][part], 0)
        return microseconds(b',"dur":', np.where(phase == _SLICE, ns, -1), silent_ns=-1)


def _head(phase: bytes, category: str) -> bytes:
    return b',\n{"ph":%b,"cat":%b,"name":' % (phase, quoted(category))
