"""The devices of all processes, and what their driver says about them and their streams.

A process numbers the devices that it may see, so with CUDA_VISIBLE_DEVICES the same number can be another device in
each process. Where a device has a UUID it is known by it, and has one number in the whole capture.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion._tables import Array
from pillion.merge.activity_kinds import CONTEXT, DEVICE, NAME
from pillion.merge.json_texts import members
from pillion.merge.launches import find_first
from pillion.merge.records import Records, Strings, pack

_NO_DEVICE = 2**16 - 1
_STREAM = 5  # CUpti_ActivityObjectKind
_LISTED_MAX = 1_000  # of what a job says about itself


class Devices:
    """Numbers devices.

    Args:
        of: activities.

    Attributes:
        listed: for each device ``id``, ``name``, ``memory_bytes`` (None: unknown) and what else is known, for a
            capture's meta.
        streams: for each stream with a name ``pid``, ``device`` (−1: unknown), ``stream`` and ``name``, likewise.
    """

    def __init__(self, of: Records, strings: Strings) -> None:
        told = of.where(of.records["activity"] == DEVICE)
        contexts = of.where(of.records["activity"] == CONTEXT)
        self._contexts = pack(contexts.region, contexts.records["context"])
        self._device_of_context = contexts.records["device"].astype(np.int64)
        told = told.take(np.unique(_keys(told), return_index=True)[1][:_LISTED_MAX])
        self._known = _keys(told)
        self.listed, self._number = _listed(told, strings)
        self.streams = self._streams(of.where(of.records["activity"] == NAME), strings)

    def of(self, of: Records) -> Array:
        """The number of each activity's device, int32, −1 for unknown; a record that names none has a context's."""
        local = of.records["device"].astype(np.int64)
        unknown = np.flatnonzero(local == _NO_DEVICE)
        place = find_first(self._contexts, pack(of.region[unknown], of.records["context"][unknown]))
        local[unknown[place >= 0]] = self._device_of_context[place[place >= 0]]
        number = np.where(local == _NO_DEVICE, -1, local)
        if len(self._known):
            told = find_first(self._known, pack(of.region, local))
            number = np.where(told >= 0, self._number[told], number)
        return number.astype(np.int32)

    def _streams(self, told: Records, strings: Strings) -> list[dict[str, Any]]:
        told = told.where(told.records["detail"] == _STREAM)
        told = told.take(np.arange(len(told.records))[:_LISTED_MAX])
        names, texts = strings.rows(told.records["name"], told.region), strings.texts
        columns = (told.pid.tolist(), self.of(told).tolist(), told.records["stream"].tolist(), names.tolist())
        streams = {(pid, device, stream): texts[name] for pid, device, stream, name in zip(*columns)}
        return [dict(zip(("pid", "device", "stream", "name"), (*key, name))) for key, name in streams.items()]


def _keys(told: Records) -> Array:
    return pack(told.region, told.records["device"])


def _listed(told: Records, strings: Strings) -> tuple[list[dict[str, Any]], Array]:
    """The devices, and the number of the one that each record tells of."""
    texts = strings.texts
    names, attributes = (strings.rows(told.records[key], told.region).tolist() for key in ("name", "attributes"))
    local_numbers = told.records["device"].tolist()
    free = max(local_numbers, default=0) + 1
    number_of: dict[str, int] = {}
    listed: dict[int, dict[str, Any]] = {}
    known_numbers: list[int] = []
    used: set[tuple[int, str]] = set()
    for region, local, name, text in zip(told.region.tolist(), local_numbers, names, attributes):
        known = members(texts[text])
        identity = str(known.get("uuid") or f"device {local}")
        if (region, identity) in used:  # a process that gives two devices one UUID
            identity += f" {local}"
        used.add((region, identity))
        if identity not in number_of:
            number_of[identity] = free if local in listed else local
            free += local in listed
            number = number_of[identity]
            size_bytes = known.pop("totalGlobalMem", None)
            listed[number] = {**known, "id": number, "name": texts[name], "memory_bytes": size_bytes}
        known_numbers.append(number_of[identity])
    return [listed[number] for number in sorted(listed)], np.array(known_numbers, np.int64)
