"""Work of devices as elements of a Chrome trace."""

from __future__ import annotations

import numpy as np

from pillion._tables import Array, Tables, length
from pillion.export._chrome_args import Args
from pillion.export._chrome_own import CATEGORIES, activity_differences
from pillion.export._chrome_places import place, write_flows
from pillion.export._details import activity_details
from pillion.export._json_pieces import microseconds, parts, picked
from pillion.export._json_rows import Elements, quoted
from pillion.export._links import launches
from pillion.export._rows import Dictionary, words


def write_activities(elements: Elements, tables: Tables, start_ns: int) -> None:
    """The activities, and flows to them from the calls that started them.

    As in Kineto's, memory is where it was allocated: on a thread of the host, whatever the device.
    """
    events, activities = tables["events"], tables["activities"]
    names = Dictionary(tables["strings"]["text"], [activities["name"]], quoted)
    args = Args(activity_details(tables) + activity_differences(tables))
    kinds = activities["kind"]
    heads = words([_head(kind) for kind in kinds.texts])
    is_slice = ~kinds.isin("memory")
    process = np.where(is_slice, activities["device"], _processes(tables))
    every = np.arange(length(activities))
    for part in parts(len(every)):
        rows = every[part]
        start, end = activities["start_ns"][part], activities["end_ns"][part]
        duration = np.where(is_slice[part], np.maximum(end - start, 0), -1)
        elements.write_rows(
            len(rows),
            picked(heads, kinds.codes[part]),
            names.piece(activities["name"][part]),
            *place(process[part], activities["stream"][part], start - start_ns),
            microseconds(b',"dur":', duration, silent_ns=-1),
            *args.of(rows),
            b"}",
        )
    links = launches(tables)
    _, once = np.unique(links.number, return_index=True)  # a launch may start several activities
    calls, target = links.source[once], links.target
    where = (events["pid"][calls], events["tid"][calls], events["start_ns"][calls] - start_ns)
    write_flows(elements, b"s", b"ac2g", links.number[once], *where)
    where = (activities["device"][target], activities["stream"][target], activities["start_ns"][target] - start_ns)
    write_flows(elements, b"f", b"ac2g", links.number, *where)


def _processes(tables: Tables) -> Array:
    """The process for which each activity was done: that of its event, else the first of the capture."""
    events, event = tables["events"], tables["activities"]["event"]
    first = np.concatenate([tables["processes"]["pid"], events["pid"], [0]])[:1]
    return np.concatenate([events["pid"], first]).astype(np.int64)[event]  # the last, for −1, is the first process


def _head(kind: str) -> bytes:
    """Memory is allocated in a moment; everything else takes time."""
    phase = b'"i","s":"t"' if kind == "memory" else b'"X"'
    return b',\n{"ph":%b,"cat":%b,"name":' % (phase, quoted(CATEGORIES.get(kind, kind)))
