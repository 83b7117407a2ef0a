"""The members of a trace that Pillion exported, but its rows: meta, and tables that are there whole.

Somebody may have changed the file, so every value is checked as those of a spool are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion._capture import FORMAT
from pillion._tables import SCHEMAS, Columns, from_rows
from pillion.importers.assembly import TIME_MAX_NS
from pillion.merge.inventory import integer, text

_NUMBERS = ("start_ns", "end_ns", "realtime_offset_ns", "rate_hz", "period_ns", "wait_threshold_ns")
_TEXTS = ("collector", "file", "host", "reason", "source", "trace_id")
_OBJECTS = ("cost", "trace_metadata")
# Lists of objects, and the fields without which one is left out.
_LISTS: dict[str, dict[str, type]] = {
    "devices": {"id": int},
    "streams": {"device": int, "stream": int, "name": str},
    "notices": {"pid": int, "source": str, "kind": str, "text": str, "value": int},
}


def own_meta(members: dict[str, Any]) -> dict[str, Any]:
    """The meta of the capture that was exported."""
    meta: dict[str, Any] = dict(members["pillion"])
    keys = meta.pop("trace", None)
    if isinstance(keys, list):
        meta["trace"] = {key: members[key] for key in keys if isinstance(key, str) and key in members}
    needed = {"collector", "cost", "reason"} | ({"file", "source"} if meta.get("collector") == "import" else set())
    for name in _NUMBERS:
        meta[name] = integer(meta, name, low=-TIME_MAX_NS, high=TIME_MAX_NS)
    for name in _TEXTS:
        if name in needed or name in meta:
            meta[name] = text(meta, name) if name == "reason" else text(meta, name) or ""
    for name in _OBJECTS:
        if name in needed or name in meta:
            meta[name] = meta[name] if isinstance(meta.get(name), dict) else {}
    for name, fields in _LISTS.items():
        if name in meta:
            listed = meta[name] if isinstance(meta[name], list) else []
            meta[name] = [item for item in listed if _has(item, fields)]
    return {**meta, "format": FORMAT, "recovered": bool(meta.get("recovered"))}


def whole_table(name: str, listed: Any) -> Columns:
    """A table that is a list of objects."""
    items = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    return from_rows(name, [tuple(_cell(item, key, kind) for key, kind in SCHEMAS[name].items()) for item in items])


def is_u16(value: Any) -> bool:
    """Whether it is a number that fits into 16 bits."""
    return isinstance(value, int) and 0 <= value < 2**16


def _has(item: Any, fields: dict[str, type]) -> bool:
    return isinstance(item, dict) and all(isinstance(item.get(key), kind) for key, kind in fields.items())


def _cell(item: dict[str, Any], key: str, kind: str) -> int | str | None:
    if kind == "text":
        return text(item, key)
    limits = np.iinfo(kind)
    return integer(item, key, low=int(limits.min), high=int(limits.max))
