"""nvprof's databases (``nvprof -o``), versions 11 and 12."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from pillion._capture import Capture
from pillion._demangle import FunctionDemangler
from pillion._tables import Array, Columns
from pillion.importers.assembly import imported
from pillion.importers.cuda_names import DRIVER_NAMES, RUNTIME_NAMES
from pillion.importers.database import Database
from pillion.importers.database_import import CUPTI, DatabaseImport
from pillion.importers.gpu_profile import (
    KERNEL_COLUMNS,
    kernel_attributes,
    only_nonzero,
)
from pillion.importers.losses import Losses
from pillion.importers.pairs import pair
from pillion.importers.threads import processes_table, threads_table
from pillion.merge.activity_kinds import MEMCPY_NAMES, SYNC_NAMES
from pillion_probes.layout import CONSTANTS

MARKS = ("StringTable",)  # with tables of CUPTI_ACTIVITY_KIND_*

_START, _END, _INSTANT = 2, 4, 1  # MARKER.flags
_PROCESS, _THREAD = 1, 2  # NAME.objectKind


def import_nvprof(path: Path) -> Capture:
    """Read a database.

    Raises:
        CaptureError: it is none.
        OSError: it cannot be read.
    """
    return _Import.of_file(path)


class _Import(DatabaseImport):
    texts_in = ("StringTable", "_id_", "value")

    def __init__(self, database: Database, losses: Losses) -> None:
        super().__init__(database, losses)
        self._pids: set[int] = set()

    def capture(self) -> Capture:
        self._add_markers()
        self._add_calls("RUNTIME", "cuda_runtime", RUNTIME_NAMES)
        self._add_calls("DRIVER", "cuda_driver", DRIVER_NAMES)
        self._add_overhead()
        for table in ("CONCURRENT_KERNEL", "KERNEL"):
            self._add_kernels(table)
        self._add_copies("MEMCPY", "memcpy", "copyKind", MEMCPY_NAMES)
        self._add_copies("MEMCPY2", "memcpy", "copyKind", MEMCPY_NAMES)
        self._add_copies("MEMSET", "memset", "flags", {})
        self._add_copies("SYNCHRONIZATION", "sync", "type", SYNC_NAMES)
        self._database.count_unread(self._read, ("start", "timestamp"))
        tables = self._profile.tables()
        tables |= self._names()
        meta = {"trace": self._database.integers("Version", {"version": 0}) if self._has("Version", "version") else {}}
        meta = {"trace": {name: values.tolist() for name, values in meta["trace"].items()}}
        path = self._database.path
        return imported(path, "nvprof", tables, self._profile.strings.texts, self._losses, meta)

    def _add_markers(self) -> None:
        """Ranges: a start has a name, its end is the next marker of that id without one."""
        table = f"{CUPTI}MARKER"
        if not self._has(table, "timestamp", "id", "name"):
            return
        rows = self._database.integers(table, {"flags": 0, "timestamp": 0, "id": 0, "name": 0, "objectKind": 0})
        objects = [raw for (raw,) in self._database.rows(table, ("objectId",))][: len(rows["id"])]
        pid, tid = _threads(objects, len(rows["id"]))
        is_instant = rows["flags"] & _INSTANT != 0
        places = np.flatnonzero(~is_instant)
        is_start = rows["name"][places] != 0
        pairs = pair(places, is_start, rows["id"][places], rows["timestamp"][places])
        is_open = pairs.end < 0
        self._losses.add("unfinished", int(np.count_nonzero(is_open)), f"ranges without an end in {table}")
        self._losses.add("lonely_ends", len(pairs.lonely), f"ends of ranges that never began in {table}")
        marks = np.flatnonzero(is_instant)
        begin = np.concatenate([pairs.begin, marks])
        end = np.concatenate([np.where(is_open, pairs.begin, pairs.end), marks])
        end_ns = rows["timestamp"][end]
        unfinished = np.concatenate([is_open, np.zeros(len(marks), bool)])
        end_ns[unfinished] = rows["timestamp"].max(initial=0)
        is_crossing = (tid[begin] != tid[end]) | (pid[begin] != pid[end])
        flags = np.where(unfinished, CONSTANTS["PLN_UNFINISHED"], 0) | np.where(is_crossing, CONSTANTS["PLN_ASYNC"], 0)
        texts = [self._texts.get(name, f"marker {name}") for name in rows["name"][begin].tolist()]
        self._pids.update(np.unique(pid).tolist())
        self._profile.add_events(
            "user_annotation",
            self._profile.nvtx_columns(texts)
            | {
                "pid": pid[begin],
                "tid": tid[begin],
                "end_tid": tid[end],
                "start_ns": rows["timestamp"][begin],
                "end_ns": end_ns,
                "kind": np.where(is_instant[begin], CONSTANTS["PLN_MARK"], CONSTANTS["PLN_RANGE"]),
                "flags": flags,
            },
        )

    def _add_calls(self, what: str, category: str, names: dict[int, str]) -> None:
        table = f"{CUPTI}{what}"
        if not self._has(table, "cbid", "start", "end"):
            return
        wanted = ("cbid", "start", "end", "processId", "threadId", "correlationId", "returnValue")
        rows = self._database.integers(table, dict.fromkeys(wanted, 0))
        self._pids.update(np.unique(rows["processId"]).tolist())
        self._profile.add_events(
            category,
            {
                "pid": rows["processId"],
                "tid": rows["threadId"] & 0xFFFF_FFFF,  # the low half of a pthread's handle, as markers have it
                "name": self._profile.rows_of(names, rows["cbid"], f"{category} call"),
                "start_ns": rows["start"],
                "end_ns": rows["end"],
                "correlation": rows["correlationId"],
                "attributes": self._profile.attributes({"return value": rows["returnValue"]}, only_nonzero),
            },
        )

    def _add_overhead(self) -> None:
        table = f"{CUPTI}OVERHEAD"
        if not self._has(table, "start", "end"):
            return
        rows = self._database.integers(table, {"start": 0, "end": 0, "overheadKind": 0})
        objects = [raw for (raw,) in self._database.rows(table, ("objectId",))][: len(rows["start"])]
        pid, tid = _threads(objects, len(rows["start"]))
        name = self._profile.rows_of({}, rows["overheadKind"], "overhead")
        times = {"start_ns": rows["start"], "end_ns": rows["end"]}
        self._profile.add_events("overhead", {"pid": pid, "tid": tid, "name": name, **times})

    def _pids_of_devices(self, table: str, count: int) -> Array:
        """A database holds one process's work: nothing says whose else."""
        return np.full(count, min(self._pids, default=0))

    def _add_kernels(self, what: str) -> None:
        table = f"{CUPTI}{what}"
        if not self._has(table, "start", "end", "name"):
            return
        rows, columns = self._device_rows(table, ("name", *KERNEL_COLUMNS))
        demangle = FunctionDemangler()
        names = {number: demangle(self._texts[number]) for number in set(rows["name"].tolist()) & self._texts.keys()}
        columns["name"] = self._profile.rows_of(names, rows["name"], "kernel")
        columns["attributes"] = self._profile.attributes(
            {label: rows[key] for key, label in KERNEL_COLUMNS.items()}, kernel_attributes
        )
        self._profile.add_activities("kernel", columns)

    def _names(self) -> dict[str, Columns]:
        """The tables ``processes`` and ``threads``: only what NAME names."""
        processes: dict[int, str] = {}
        threads: dict[tuple[int, int], str] = {}
        table = f"{CUPTI}NAME"
        if self._has(table, "objectKind", "objectId", "name"):
            for kind, raw, number in self._database.rows(table, ("objectKind", "objectId", "name")):
                pid, tid = _thread(raw)
                if kind == _PROCESS and isinstance(number, int):
                    processes[pid] = self._texts.get(number, "")
                elif kind == _THREAD and isinstance(number, int):
                    threads[pid, tid] = self._texts.get(number, "")
        return {"processes": processes_table(processes), "threads": threads_table(threads)}


def _thread(raw: object) -> tuple[int, int]:
    """pid and tid of an objectId, 0 of one that is damaged."""
    if not isinstance(raw, bytes) or len(raw) < 8:
        return 0, 0
    pid, tid = struct.unpack_from("<II", raw)
    return pid, tid


def _threads(objects: list[object], count: int) -> tuple[Array, Array]:
    pairs = [_thread(raw) for raw in objects]
    pairs += [(0, 0)] * (count - len(pairs))
    columns = np.array(pairs, np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]
