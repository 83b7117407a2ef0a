"""Where the time went, by thread and by process."""

from __future__ import annotations

import numpy as np

from pillion._tables import Array, Columns, Tables, text_column
from pillion.model.tree import sums

_EXACT = ("on_cpu_ns", "off_cpu_ns", "runnable_ns", "switches")


def threads(tables: Tables) -> Columns:
    """One row for each thread that appears anywhere.

    ``on_cpu_ns``, ``off_cpu_ns`` and ``runnable_ns`` (a part of ``off_cpu_ns``) are the scheduler's and exact, −1 where
    nobody measured; ``samples`` is sampled, ``calls`` the number of ranges.
    """
    known = tables["threads"]
    keys = {table: _key(tables[table]) for table in ("threads", "events", "samples", "waits")}
    all_keys = np.unique(np.concatenate(list(keys.values())))
    row = np.searchsorted(all_keys, keys["threads"])
    names = text_column([""] * len(all_keys))
    names[row] = known["name"]
    exact = {name: np.full(len(all_keys), -1) for name in _EXACT}
    for name, column in exact.items():
        column[row] = known[name]
    return {
        "name": names,
        "pid": (all_keys >> np.uint64(32)).astype(np.int64),
        "tid": (all_keys & np.uint64(0xFFFFFFFF)).astype(np.int64),
        "calls": _count(all_keys, keys["events"]),
        "samples": _count(all_keys, keys["samples"]),
        "waits": _count(all_keys, keys["waits"]),
        **exact,
    }


def _key(columns: Columns) -> Array:
    key: Array = (columns["pid"].astype(np.uint64) << np.uint64(32)) | columns["tid"]
    return key


def _count(all_keys: Array, keys: Array) -> Array:
    return np.bincount(np.searchsorted(all_keys, keys), minlength=len(all_keys)).astype(np.int64)


def processes(tables: Tables) -> Columns:
    """One row for each process that appears anywhere; the sums over its threads."""
    by_thread = threads(tables)
    known = tables["processes"]
    pids = np.unique(np.concatenate([by_thread["pid"], known["pid"].astype(np.int64)]))
    names, cmdlines = text_column([""] * len(pids)), text_column([""] * len(pids))
    row = np.searchsorted(pids, known["pid"])
    names[row], cmdlines[row] = known["comm"], known["cmdline"]
    pid_of_thread: Array = by_thread["pid"]
    place = np.searchsorted(pids, pid_of_thread)
    columns: Columns = {"name": names, "pid": pids, "threads": np.bincount(place, minlength=len(pids))}
    for name in ("calls", "samples", "waits", *_EXACT):
        measured = by_thread[name] >= 0
        known_rows = np.where(measured, place, -1)
        column = sums(known_rows, by_thread[name], len(pids))
        columns[name] = np.where(np.bincount(place[measured], minlength=len(pids)) > 0, column, -1)
    return {**columns, "cmdline": cmdlines}
