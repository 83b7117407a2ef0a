"""Where and when the elements of a Chrome trace are: their processes and threads, and flows between them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from pillion._tables import Array, Tables
from pillion.export._json_pieces import Piece, integers, microseconds
from pillion.export._json_rows import Elements
from pillion.export._places import DeviceNames, thread_names

# Where Kineto begins to number devices when it sorts processes: below those of the host.
_DEVICE_SORT_INDEX = 0x1000000


def place(pid: Array, tid: Array, time_ns: Array) -> tuple[Piece, ...]:
    """``,"pid":…,"tid":…,"ts":…``."""
    return integers(b',"pid":', pid), integers(b',"tid":', tid), microseconds(b',"ts":', time_ns)


def write_flows(
    elements: Elements, phase: bytes, name: bytes, number: Array, pid: Array, tid: Array, time_ns: Array
) -> None:
    """Beginnings (phase ``s``) or ends (``f``) of arrows, which bind to the slices that begin there."""
    head = b',\n{"ph":"%b","cat":"%b","name":"%b","id":' % (phase, name, name)
    bound = b',"bp":"e"}' if phase == b"f" else b"}"
    elements.write_rows(len(number), integers(head, number), *place(pid, tid, time_ns), bound)


def write_names(elements: Elements, tables: Tables, meta: dict[str, Any]) -> None:
    """Processes with their threads, devices with their streams."""
    elements.write(b"".join([b",\n" + json.dumps(event).encode() for event in _names(tables, DeviceNames(meta))]))


def _names(tables: Tables, names: DeviceNames) -> Iterator[dict[str, Any]]:
    processes, activities = tables["processes"], tables["activities"]
    for pid, name in zip(processes["pid"].tolist(), processes["comm"].tolist()):
        yield from _process(pid, name or "", "CPU", pid)
    for (pid, tid), name in thread_names(tables).items():
        yield from _thread(pid, tid, name)
    is_work = ~activities["kind"].isin("memory")  # which is on a track of the host
    for device in np.unique(activities["device"][is_work]).tolist():
        yield from _process(device, names.device(device), f"GPU {device}", _DEVICE_SORT_INDEX + device)
        for stream in np.unique(activities["stream"][is_work & (activities["device"] == device)]).tolist():
            yield from _thread(device, stream, names.stream(device, stream))


def _process(pid: int, name: str, label: str, sort_index: int) -> Iterator[dict[str, Any]]:
    yield _metadata("process_name", pid, 0, name=name)
    yield _metadata("process_labels", pid, 0, labels=label)
    yield _metadata("process_sort_index", pid, 0, sort_index=sort_index)


def _thread(pid: int, tid: int, name: str) -> Iterator[dict[str, Any]]:
    yield _metadata("thread_name", pid, tid, name=name)
    yield _metadata("thread_sort_index", pid, tid, sort_index=tid)


def _metadata(kind: str, pid: int, tid: int, **args: Any) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": args}
