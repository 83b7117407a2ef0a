"""Threads and streams, numbered and named, for formats that know one list of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pillion._tables import Array, Tables


class Places(NamedTuple):
    """Where rows happened.

    Attributes:
        row: of each row its place.
        names: of the places.
    """

    row: Array
    names: list[str]


def thread_names(tables: Tables) -> dict[tuple[int, int], str]:
    """(pid, tid) to "name (tid)", or to the name alone where it has the number in it, as those of torch's traces."""
    threads = tables["threads"]
    rows = zip(*(threads[key].tolist() for key in ("pid", "tid", "name")))
    return {(pid, tid): name if name and str(tid) in name else f"{name or 'thread'} ({tid})" for pid, tid, name in rows}


def threads(tables: Tables, pid: Array, tid: Array) -> Places:
    """The threads of rows; their names begin with that of the process where there are several."""
    keys, row = np.unique(pid.astype(np.int64) << 32 | tid, return_inverse=True)
    known = thread_names(tables)
    commands = dict(zip(tables["processes"]["pid"].tolist(), tables["processes"]["comm"].tolist()))
    several = len(np.unique(keys >> 32)) > 1
    names = []
    for key in keys.tolist():
        pid_of, tid_of = key >> 32, key & 0xFFFF_FFFF
        process = f"{commands.get(pid_of) or 'process'} ({pid_of}) " if several else ""
        names.append(process + known.get((pid_of, tid_of), f"thread ({tid_of})"))
    return Places(row, names)


class DeviceNames:
    """What devices and streams are called: by number, then as the driver or the job called them."""

    def __init__(self, meta: dict[str, Any]) -> None:
        self._devices = {device.get("id"): device.get("name") for device in meta.get("devices", ())}
        self._streams: dict[tuple[Any, Any], list[str]] = {}
        for stream in meta.get("streams", ()):
            names = self._streams.setdefault((stream.get("device"), stream.get("stream")), [])
            name = str(stream.get("name") or "")
            names += [name] * (name != "" and name not in names)  # processes number their streams alike

    def device(self, device: int) -> str:
        """``GPU 0 NVIDIA H200``; below 0 it is the host, whose memory torch's profiler tells of as well."""
        if device < 0:
            return "host"
        return " ".join([f"GPU {device}", *filter(None, [self._devices.get(device)])])

    def stream(self, device: int, stream: int) -> str:
        """``stream 7 copies``; of the host the thread that allocated."""
        if device < 0:
            return f"thread {stream}"
        return " ".join([f"stream {stream}", *filter(None, ["/".join(self._streams.get((device, stream), ()))])])


def streams(device: Array, stream: Array, names: DeviceNames) -> Places:
    """The streams of devices of rows."""
    devices, of_device = np.unique(device, return_inverse=True)
    numbers, of_stream = np.unique(stream, return_inverse=True)
    keys, row = np.unique(of_device * len(numbers) + of_stream, return_inverse=True)
    pairs = [divmod(key, len(numbers)) for key in keys.tolist()]
    found = [(int(devices[place]), int(numbers[number])) for place, number in pairs]
    return Places(row, [f"{names.device(device)} {names.stream(device, stream)}" for device, stream in found])
