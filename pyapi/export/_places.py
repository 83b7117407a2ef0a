"""Threads and streams, numbered and named, for formats that know one list of them."""

from __future__ import annotations

from typing import NamedTuple

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


def streams(device: Array, stream: Array) -> Places:
    """The streams of devices of rows."""
    devices, of_device = np.unique(device, return_inverse=True)
    numbers, of_stream = np.unique(stream, return_inverse=True)
    keys, row = np.unique(of_device * len(numbers) + of_stream, return_inverse=True)
    pairs = [divmod(key, len(numbers)) for key in keys.tolist()]
    return Places(row, [f"GPU {devices[place]} stream {numbers[number]}" for place, number in pairs])
