"""What Nsight Systems' and nvprof's databases have in common: host events, device activities, and their links."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pillion._tables import Array, Columns, Labels, Tables, label_column
from pillion.importers.assembly import Strings, activities_table, clean_times, events_table
from pillion.importers.distinct import distinct
from pillion.importers.losses import Losses
from pillion.importers.nvtx import nvtx_range
from pillion.merge.launches import causes, launches
from pillion_probes.layout import CONSTANTS

# Columns of kernels, and what Kineto calls them.
KERNEL_COLUMNS = {
    "gridX": "grid x",
    "gridY": "grid y",
    "gridZ": "grid z",
    "blockX": "block x",
    "blockY": "block y",
    "blockZ": "block z",
    "registersPerThread": "registers per thread",
    "staticSharedMemory": "static shared memory",
    "dynamicSharedMemory": "shared memory",
}

_EVENT_DEFAULTS = {
    "end_tid": None,
    "kind": CONSTANTS["PLN_RANGE"],
    "flags": 0,
    "correlation": 0,
    "sequence_nr": -1,
    "scope": 0,
    "shapes": 0,
    "attributes": 0,
}
_ACTIVITY_DEFAULTS = {"device": -1, "context": 0, "stream": 0, "correlation": 0, "bytes": 0, "attributes": 0, "pid": 0}


@dataclass
class GpuProfile:
    """Collects the parts of a profile, then makes tables of them."""

    losses: Losses
    strings: Strings = field(default_factory=Strings)
    _events: list[Columns] = field(default_factory=list)
    _activities: list[Columns] = field(default_factory=list)

    def add_events(self, category: str | Labels, columns: Columns) -> None:
        """Host events: pid, tid, name, start_ns, end_ns, and any of the optional columns."""
        self._events.append(self._part(category, columns, _EVENT_DEFAULTS))

    def add_activities(self, kind: str, columns: Columns) -> None:
        """Activities: pid of the process that started them, name, start_ns, end_ns, and any of the others."""
        self._activities.append(self._part(kind, columns, _ACTIVITY_DEFAULTS))

    def _part(self, label: str | Labels, columns: Columns, defaults: dict[str, Any]) -> Columns:
        usable, start, end = clean_times(columns["start_ns"], columns["end_ns"] - columns["start_ns"], self.losses)
        part = {name: column[usable] for name, column in columns.items()}
        part["start_ns"], part["end_ns"] = start, end
        for name, default in defaults.items():
            part.setdefault(name, part["tid"] if default is None else np.full(len(start), default, np.int64))
        if isinstance(label, Labels):
            part["label"] = label.take(usable)
        else:
            part["label"] = Labels(np.zeros(len(start), np.int32), (label,))
        return part

    def rows_of(self, texts: dict[int, str], numbers: Array, missing: str) -> Array:
        """The strings of numbered texts.

        Args:
            missing: what a number without a text is called; the number follows.
        """
        known, which = np.unique(numbers, return_inverse=True)
        names = (texts.get(number, f"{missing} {number}") for number in known.tolist())
        rows = np.array([self.strings.row(name) for name in names], np.int32)
        return rows[which]

    def attributes(self, columns: dict[str, Array], members: Callable[[dict[str, int]], dict[str, Any]]) -> Array:
        """The string of a JSON object for each row; equal rows are made once.

        Args:
            members: from the numbers of a row to those of the object.
        """
        place, which = distinct(*columns.values())
        known = np.stack([column[place] for column in columns.values()], axis=1)
        made = [members(dict(zip(columns, row))) for row in known.tolist()]
        rows = np.array([self.strings.row(json.dumps(found) if found else "") for found in made], np.int64)
        return rows[which]

    def nvtx_columns(self, texts: list[str]) -> Columns:
        """The columns that the texts of ranges give."""
        known: dict[str, int] = {}
        which = np.array([known.setdefault(text, len(known)) for text in texts], np.int64)
        rows = []
        for text in known:
            made = nvtx_range(text)
            scope = 1 if made.is_backward else 7 if made.sequence_nr < 0 and not made.attributes else 0
            texts_rows = (self.strings.row(part) for part in (made.name, made.shapes, made.attributes))
            rows.append((*texts_rows, made.sequence_nr, scope))
        columns = np.array(rows, np.int64).reshape(-1, 5)[which]
        names = ("name", "shapes", "attributes", "sequence_nr", "scope")
        return {name: columns[:, place] for place, name in enumerate(names)}

    def tables(self) -> Tables:
        """The tables ``events`` and ``activities``."""
        columns = _joined(self._events, ("pid", "tid", "name", "start_ns", "end_ns", *_EVENT_DEFAULTS))
        columns["category"] = columns.pop("label")
        for name in ("pid", "tid", "end_tid"):
            columns[name] = columns[name].astype(np.uint32)
        events = events_table(columns, self.losses)
        activities = _joined(self._activities, ("name", "start_ns", "end_ns", *_ACTIVITY_DEFAULTS))
        activities["kind"] = activities.pop("label")
        pid = activities.pop("pid").astype(np.uint32)
        activities["launch"] = launches(events, activities["correlation"], pid)
        activities["event"] = causes(events, activities["launch"])
        return {"events": events, "activities": activities_table(activities)}


def only_nonzero(members: dict[str, int]) -> dict[str, Any]:
    """What is not 0."""
    return {name: value for name, value in members.items() if value}


def kernel_attributes(members: dict[str, int]) -> dict[str, Any]:
    """Of KERNEL_COLUMNS: shared memory in one number, grid and block as lists; of others what is not 0."""
    made: dict[str, Any] = {
        "registers per thread": members["registers per thread"],
        "shared memory": members["static shared memory"] + members["shared memory"],
        **{what: [members[f"{what} {axis}"] for axis in "xyz"] for what in ("grid", "block")},
    }
    return made | only_nonzero({name: members[name] for name in members.keys() - KERNEL_COLUMNS.values()})


def _joined(parts: list[Columns], names: tuple[str, ...]) -> Columns:
    """Columns one behind the other."""
    if not parts:
        return {**{name: np.empty(0, np.int64) for name in names}, "label": label_column([])}
    columns: Columns = {name: np.concatenate([part[name] for part in parts]) for name in names}
    texts: dict[str, int] = {}
    codes = []
    for part in parts:
        of_part = [texts.setdefault(text, len(texts)) for text in part["label"].texts]
        codes.append(np.array(of_part, np.int32)[part["label"].codes])
    columns["label"] = Labels(np.concatenate(codes), tuple(texts))
    return columns
