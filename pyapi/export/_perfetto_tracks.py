"""The tracks of a Perfetto trace: processes with their threads, devices with their streams, and tracks below them.

Names beside the numbers are those of the fields of TrackDescriptor and what it includes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pillion._tables import Array, Tables
from pillion.export._perfetto_packets import Packets
from pillion.export._places import DeviceNames
from pillion.export._protobuf import integer, message, text
from pillion.export._tracks import lanes

_INT32 = 0x7FFF_FFFF  # what the format has room for in a pid; Linux's stay far below
_LOW = 0xFFFF_FFFF


class Tracks:
    """Gives rows the uuid of their track, and describes each track when it is first asked for."""

    def __init__(self, tables: Tables, meta: dict[str, Any], packets: Packets) -> None:
        self._device_names = DeviceNames(meta)
        self._packets = packets
        self._known: dict[tuple[object, ...], int] = {}
        processes, threads = tables["processes"], tables["threads"]
        self._commands = dict(zip(processes["pid"].tolist(), processes["comm"].tolist()))
        self._names = dict(zip(zip(threads["pid"].tolist(), threads["tid"].tolist()), threads["name"].tolist()))
        for pid in self._commands:
            self._process(pid)
        for pid, tid in self._names:
            self._thread(pid, tid)

    def threads(self, pid: Array, tid: Array) -> Array:
        """The track of each thread."""
        return _by_key(_pairs(pid, tid), lambda pid, tid: self._thread(pid, tid))

    def below_threads(self, pid: Array, tid: Array, lane: Array, name: str) -> Array:
        """For each lane a track of this name below that of the thread."""
        parent = self.threads(pid, tid)
        return _by_key(_pairs(parent, lane), lambda parent, lane: self._child(parent, name, lane))

    def below_processes(self, pid: Array, lane: Array, name: str) -> Array:
        """For each lane a track of this name below that of the process."""
        return _by_key(_pairs(pid, lane), lambda pid, lane: self._child(self._process(pid), name, lane))

    def streams(self, device: Array, stream: Array, start: Array, end: Array) -> Array:
        """For each stream a track below that of its device, and more for what overlaps there."""
        devices, of_device = np.unique(device, return_inverse=True)
        streams, of_stream = np.unique(stream, return_inverse=True)
        group = of_device * len(streams) + of_stream

        def make(group: int, lane: int) -> int:
            place, number = divmod(group, len(streams))
            of_device, of_stream = int(devices[place]), int(streams[number])
            return self._child(self._device(of_device), self._device_names.stream(of_device, of_stream), lane)

        return _by_key(_pairs(group, lanes(group, start, end)), make)

    def _process(self, pid: int) -> int:
        process = message(3, integer(1, pid & _INT32), text(6, self._commands.get(pid)))  # process {pid process_name}
        return self._track(("process", pid), process)

    def _thread(self, pid: int, tid: int) -> int:
        name = self._names.get((pid, tid)) or "thread"
        fields = (integer(1, pid & _INT32), integer(2, tid), text(5, name))  # pid tid thread_name
        return self._track(("thread", pid, tid), message(4, *fields), self._process(pid))  # thread

    def _device(self, device: int) -> int:
        name = self._device_names.device(device) if device >= 0 else "Device"
        return self._track(("device", device), text(2, name))  # name

    def _child(self, parent: int, name: str, lane: int) -> int:
        return self._track((parent, name, lane), text(2, name), parent)

    def _track(self, key: tuple[object, ...], fields: bytes, parent: int = 0) -> int:
        if key not in self._known:
            uuid = self._known[key] = len(self._known) + 1
            above = integer(5, parent) if parent else b""  # parent_uuid
            self._packets.one(message(60, integer(1, uuid), above, fields))  # track_descriptor {uuid}
        return self._known[key]


def _pairs(high: Array, low: Array) -> Array:
    return high.astype(np.int64) << 32 | low.astype(np.int64)


def _by_key(pairs: Array, make: Callable[[int, int], int]) -> Array:
    """What ``make`` gives for the two halves of each pair; it is called once for each that differs."""
    keys, place = np.unique(pairs, return_inverse=True)
    found: Array = np.array([make(key >> 32, key & _LOW) for key in keys.tolist()], np.int64)[place]
    return found
