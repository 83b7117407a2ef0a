"""What NVTX and ITT say of an event besides its name, taken apart: domain, category, payload.

A record's ``args`` is "domain", "domain US category" or "domain US category US kind", US being U+001F. The kind says
how to read the record's value; without one it is an unsigned number.
"""

from __future__ import annotations

import json
import math
import struct

import numpy as np

from pillion._tables import Array, Columns
from pillion.merge.records import Strings
from pillion_probes.layout import CONSTANTS

_SOURCES = (CONSTANTS["PLN_SOURCE_NVTX"], CONSTANTS["PLN_SOURCE_ITT"])
_SEPARATOR = "\x1f"
_READ = {"signed": "<q", "double": "<d"}


def annotation_columns(events: Columns, scope: Array, strings: Strings) -> Columns:
    """The columns that annotations have otherwise than their records; none where there are no annotations.

    ``args`` becomes the domain alone. ``attributes`` gets the category, its name or else its number, and a payload
    that is no unsigned number, whose ``value`` becomes 0.

    Args:
        events: with source, args (rows of ``strings``) and value.
        scope: the number of each event's category, 0 for none.
        strings: the texts, which grow.
    """
    rows = np.flatnonzero(np.isin(events["source"], _SOURCES))
    if not len(rows):
        return {}
    used, label_of = np.unique(events["args"][rows], return_inverse=True)
    texts = strings.texts
    labels = [_parts(texts[row]) for row in used.tolist()]
    number = np.array([category == "" for _, category, _ in labels], bool)
    is_read = np.array([kind != "" for _, _, kind in labels], bool)
    if not (scope[rows].any() or is_read.any() or not number.all()):
        return {}

    category = np.where(number[label_of], scope[rows], 0)
    payload = np.where(is_read[label_of], events["value"][rows], 0).astype(np.uint64)
    said, which = _distinct(label_of, category, payload)
    args, attributes, value = events["args"].copy(), np.zeros(len(events["args"]), np.int32), events["value"].copy()
    args[rows] = np.array([strings.row(domain) for domain, _, _ in labels], np.int32)[label_of]
    attributes[rows] = np.array([strings.row(_json(labels[place], *rest)) for place, *rest in said], np.int32)[which]
    value[rows[is_read[label_of]]] = 0
    return {"args": args, "attributes": attributes, "value": value}


def _parts(text: str) -> tuple[str, str, str]:
    """Domain, category and kind; a kind that we do not know is none."""
    domain, category, kind = [*text.split(_SEPARATOR, 2), "", ""][:3]
    return domain, category, kind if kind in _READ else ""


def _distinct(label: Array, category: Array, payload: Array) -> tuple[list[tuple[int, int, int]], Array]:
    """Each combination once, and which of them each event has."""
    order = np.lexsort((payload, category, label))
    columns = [values[order] for values in (label, category, payload)]
    is_new = np.zeros(len(order), bool)
    is_new[:1] = True
    for values in columns:
        is_new[1:] |= values[1:] != values[:-1]
    which = np.empty(len(order), np.int64)
    which[order] = np.cumsum(is_new) - 1
    return list(zip(*(values[is_new].tolist() for values in columns))), which


def _json(label: tuple[str, str, str], number: int, payload: int) -> str:
    """The attributes as a JSON object; "" for none."""
    _, category, kind = label
    said: dict[str, str | int | float] = {}
    if category or number:
        said["category"] = category or number
    if kind:
        (value,) = struct.unpack(_READ[kind], payload.to_bytes(8, "little"))
        said["payload"] = value if math.isfinite(value) else str(value)  # JSON has no NaN
    return json.dumps(said) if said else ""
