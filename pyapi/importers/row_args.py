"""What rows of our own traces say in ``args`` beyond what the native reader takes."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import numpy as np

from pillion._tables import Array
from pillion.export._chrome_args import ATTRIBUTES
from pillion.export._chrome_own import PREFIX
from pillion.importers.assembly import Strings
from pillion.importers.trace_json import TraceJson
from pillion.merge.inventory import text


class RowArgs:
    """The args of some rows; each different text is read once.

    Args:
        places: of the rows in the trace.
        keys: the members that are asked for; those with Pillion's prefix are as well.
        strings: where texts go.
    """

    def __init__(self, trace: TraceJson, places: Array, keys: Collection[str], strings: Strings) -> None:
        numbers = trace.column("attributes")[places]
        used = np.flatnonzero(np.bincount(numbers, minlength=1))
        self._which = np.searchsorted(used, numbers)
        self._strings = strings
        split = [_split(trace.strings[number], keys) for number in used.tolist()]
        self._known = [known for known, _ in split]
        self._rest = [rest for _, rest in split]

    def rest(self) -> Array:
        """Rows of strings: what nobody asks for, as a JSON object."""
        return self._rows(self._rest)

    def texts(self, key: str) -> Array:
        """Rows of strings, 0 for none."""
        return self._rows([text(known, key) or "" for known in self._known])

    def integers(self, key: str, default: Array | int, kind: str = "i8") -> Array:
        """Numbers that fit the kind; others count as absent."""
        limits = np.iinfo(kind)
        found = np.zeros(len(self._known), kind)
        is_there = np.zeros(len(self._known), bool)
        for row, known in enumerate(self._known):
            value = known.get(key)
            if isinstance(value, int) and limits.min <= value <= limits.max:
                found[row], is_there[row] = value, True
        return np.where(is_there[self._which], found[self._which], np.asarray(default).astype(kind))

    def nanoseconds(self, key: str) -> Array:
        """Microseconds as ns; what cannot be is 0."""
        times = [known.get(key) for known in self._known]
        ns = [round(it * 1e3) if isinstance(it, (int, float)) and abs(it) < 2**52 else 0 for it in times]
        return np.array(ns, np.int64)[self._which]

    def _rows(self, texts: list[str]) -> Array:
        rows: Array = np.array([self._strings.row(it) for it in texts], np.int32)[self._which]
        return rows


def _split(attributes: str, keys: Collection[str]) -> tuple[dict[str, Any], str]:
    """The members that are asked for, and the rest as it was."""
    try:
        members = json.loads(attributes, strict=False) if attributes else {}
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, dict):
        return {}, attributes
    known = {key: value for key, value in members.items() if key in keys or key.startswith(PREFIX)}
    if not known:
        return {}, attributes
    if isinstance(whole := known.get("attributes"), str):  # what is no JSON object went out as a text
        return known, whole
    apart = known.get(ATTRIBUTES)  # whose keys are those of others
    rest = {key: value for key, value in members.items() if key not in known}
    rest |= apart if isinstance(apart, dict) else {}
    return known, json.dumps(rest) if rest else ""
