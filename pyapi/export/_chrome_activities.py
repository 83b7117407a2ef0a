"""Work of devices as elements of a Chrome trace."""

from __future__ import annotations

import numpy as np

from pillion._tables import Tables, length
from pillion.export._chrome_args import Args
from pillion.export._chrome_places import flows, place
from pillion.export._details import activity_details
from pillion.export._json_rows import Elements, microseconds, quoted
from pillion.export._links import launches
from pillion.export._rows import Dictionary, chunks, joined, only, pick, words
from pillion.model.column_event import ACTIVITY_TYPES

_CATEGORIES = {**ACTIVITY_TYPES, "memory": "cpu_instant_event"}


def write_activities(elements: Elements, tables: Tables, start_ns: int) -> None:
    """The activities, and flows to them from the calls that started them."""
    events, activities = tables["events"], tables["activities"]
    names = Dictionary(tables["strings"]["text"], [activities["name"]], quoted)
    args = Args(activity_details(tables))
    kinds = activities["kind"]
    heads = words([_head(kind) for kind in kinds.texts])
    is_slice = ~kinds.isin("memory")
    every = np.arange(length(activities))
    for part in chunks(names.sizes(activities["name"]) + args.sizes(every)):
        rows = every[part]
        start, end = activities["start_ns"][part], activities["end_ns"][part]
        elements.write(
            joined(
                pick(heads, kinds.codes[part]),
                names.pick(activities["name"][part]),
                *place(activities["device"][part], activities["stream"][part], start - start_ns),
                only(is_slice[part], joined(b',"dur":', microseconds(np.maximum(end - start, 0)))),
                args.of(rows),
                b"}",
            )
        )
    links = launches(tables)
    _, once = np.unique(links.number, return_index=True)  # a launch may start several activities
    calls, target = links.source[once], links.target
    where = (events["pid"][calls], events["tid"][calls], events["start_ns"][calls] - start_ns)
    elements.write(flows(b"s", b"ac2g", links.number[once], *where))
    where = (activities["device"][target], activities["stream"][target], activities["start_ns"][target] - start_ns)
    elements.write(flows(b"f", b"ac2g", links.number, *where))


def _head(kind: str) -> bytes:
    """Memory is allocated in a moment; everything else takes time."""
    phase = b'"i","s":"t"' if kind == "memory" else b'"X"'
    return b',\n{"ph":%b,"cat":%b,"name":' % (phase, quoted(_CATEGORIES.get(kind, kind)))
