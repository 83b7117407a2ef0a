"""What activities are called: kernels as their source has them, copies as Kineto does, the rest by its numbers."""

from __future__ import annotations

import numpy as np

from pillion._demangle import FunctionDemangler
from pillion._tables import Array
from pillion.merge.activity_kinds import ACTIVITY_KINDS, DETAIL_NAMES
from pillion.merge.json_texts import members
from pillion.merge.records import Records, Strings, pack


def activity_names(of: Records, strings: Strings) -> Array:
    """Rows of strings; new ones are added."""
    rows = _readable(strings.rows(of.records["name"], of.region), strings)
    nameless = of.where(rows == 0)
    if len(nameless.records):
        rows[rows == 0] = _by_numbers(nameless, strings)
    return rows


def _readable(rows: Array, strings: Strings) -> Array:
    texts, demangle = strings.texts, FunctionDemangler()
    readable = np.arange(len(texts), dtype=np.int32)
    for row in np.flatnonzero(np.bincount(rows)).tolist():
        readable[row] = strings.row(demangle(texts[row]))
    found: Array = readable[rows]
    return found


def _by_numbers(of: Records, strings: Strings) -> Array:
    """Each different combination of kind, detail and attributes is looked at once."""
    kinds, of_kind = np.unique(pack(of.records["activity"], of.records["detail"]), return_inverse=True)
    attributes, of_attributes = np.unique(strings.rows(of.records["attributes"], of.region), return_inverse=True)
    keys, which = np.unique(of_kind * len(attributes) + of_attributes, return_inverse=True)
    texts, made = strings.texts, []
    for key in keys.tolist():
        kind, detail = divmod(int(kinds[key // len(attributes)]), 1 << 32)
        made.append(strings.row(_name(kind, detail, texts[attributes[key % len(attributes)]])))
    return np.array(made, np.int32)[which]


def _name(activity: int, detail: int, attributes: str) -> str:
    """``Memcpy HtoD (Pinned -> Device)``, ``Memset (Device)``, ``Stream Sync``."""
    known, other = DETAIL_NAMES[activity]
    name = known.get(detail, f"{other} {detail}" if known else other)
    if ACTIVITY_KINDS[activity] not in ("memcpy", "memset"):
        return name
    says = members(attributes)
    memory = [str(says[key]).title() for key in ("src kind", "dst kind", "memory kind") if says.get(key)]
    return f"{name} ({' -> '.join(memory)})" if memory else name
