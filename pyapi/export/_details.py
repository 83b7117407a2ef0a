"""What is known of events and activities besides name, time and place, under the keys that Kineto gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pillion._tables import Array, Columns, Tables, column, length
from pillion.model.stacks import StackTexts
from pillion_probes.layout import CONSTANTS

# Keys of columns, with the value that says nothing; None: every value says something.
_EVENT_NUMBERS: dict[str, tuple[str, int | None]] = {
    "external_id": ("External id", 0),
    "correlation": ("correlation", 0),
    "sequence_nr": ("Sequence number", -1),
    "fwd_thread": ("Fwd thread id", -1),
    # Kineto does not write these: the keys are Pillion's.
    "cpu_memory": ("CPU memory", 0),
    "device_memory": ("Device memory", 0),
    "flops": ("FLOPs", 0),
    "node_id": ("Node id", -1),
    "value": ("value", 0),
}
_ACTIVITY_NUMBERS: dict[str, tuple[str, int | None]] = {
    "device": ("device", None),
    "context": ("context", None),
    "stream": ("stream", None),
    "correlation": ("correlation", None),
    "bytes": ("bytes", 0),
}
_EVENT_TEXTS = {"args": ("args", False), "overload": ("Overload name", False), "shapes": ("Input Dims", True)}
# Keys of members that no other may have, as they would be taken for these columns.
EVENT_KEYS = frozenset(
    {"args", "Overload name", "CPU memory", "Device memory", "FLOPs", "Node id", "value", "unfinished", "attributes"}
)
ACTIVITY_KEYS = frozenset({"device", "stream", "context", "bytes", "attributes"})


@dataclass(frozen=True)
class Detail:
    """One thing that is known of some rows.

    Attributes:
        key: its name; "" for objects whose members have names themselves.
        values: of every row: a number, or a place in ``texts``, where 0 says nothing.
        silent: the number that says nothing, None if there is none.
        texts: None for numbers.
        is_json: the texts are JSON.
        reserved: keys that members of the objects cannot have.
    """

    key: str
    values: Array
    silent: int | None = 0
    texts: Any = None
    is_json: bool = False
    reserved: frozenset[str] = frozenset()


class _CallStacks:
    """Rows of stacks as texts, made when they are asked for."""

    def __init__(self, tables: Tables) -> None:
        self._length = length(tables["stacks"])
        self._entries = StackTexts(tables)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, row: int) -> str:
        return ";".join(self._entries[row])


def event_details(tables: Tables) -> list[Detail]:
    """The details that any event has."""
    events, texts = tables["events"], tables["strings"]["text"]
    numbers = events
    if "sequence_nr" in events:  # Kineto gives the thread of every event with a sequence number, and of no other
        forward = np.where(events["sequence_nr"] >= 0, column("events", events, "fwd_thread"), -1)
        of_torch = events["source"] == CONSTANTS["PLN_SOURCE_TORCH"]  # their value is the sequence number
        value = np.where(of_torch, np.uint64(0), events["value"])
        numbers = {**events, "fwd_thread": forward, "value": value}
    found = _numbers(numbers, _EVENT_NUMBERS)
    for name, (key, is_json) in _EVENT_TEXTS.items():
        if name in events and events[name].any():
            found.append(Detail(key, events[name], texts=texts, is_json=is_json))
    if "stack" in events and events["stack"].any():
        found.append(Detail("Call stack", events["stack"], texts=_CallStacks(tables)))
    is_unfinished = (events["flags"] & CONSTANTS["PLN_UNFINISHED"] != 0).astype(np.int8)
    if is_unfinished.any():
        found.append(Detail("unfinished", is_unfinished, texts=["", "true"], is_json=True))
    return found + _attributes(events, texts, EVENT_KEYS)


def activity_details(tables: Tables) -> list[Detail]:
    """The details that any activity has. ``External id`` is that of the operator."""
    events, activities = tables["events"], tables["activities"]
    found: list[Detail] = []
    if "external_id" in events and length(events):
        external = np.where(activities["event"] >= 0, events["external_id"][activities["event"]], 0)
        found = _numbers({"external_id": external}, _EVENT_NUMBERS)
    always = {name: column("activities", activities, name) for name in _ACTIVITY_NUMBERS}
    attributes = _attributes(activities, tables["strings"]["text"], ACTIVITY_KEYS)
    return found + _numbers(always, _ACTIVITY_NUMBERS) + attributes


def _numbers(columns: Columns, keys: dict[str, tuple[str, int | None]]) -> list[Detail]:
    return [
        Detail(key, columns[name], silent)
        for name, (key, silent) in keys.items()
        if name in columns and (silent is None or (columns[name] != silent).any())
    ]


def _attributes(columns: Columns, texts: Array, reserved: frozenset[str]) -> list[Detail]:
    if "attributes" not in columns or not columns["attributes"].any():
        return []
    return [Detail("", columns["attributes"], texts=texts, is_json=True, reserved=reserved)]
