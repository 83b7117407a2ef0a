"""Nsight Systems' SQLite exports, of every schema: a table or column that is not there has nothing to say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pillion._capture import Capture
from pillion._tables import Array, Labels, Tables
from pillion.importers.assembly import TIME_MAX_NS, imported
from pillion.importers.database_import import CUPTI, DatabaseImport
from pillion.importers.gpu_profile import (
    KERNEL_COLUMNS,
    kernel_attributes,
    only_nonzero,
)
from pillion.importers.nsys_threads import samples_tables, sampling_meta, thread_of, waits_table
from pillion.importers.threads import processes_table, threads_table
from pillion.merge.activity_kinds import MEMCPY_NAMES, SYNC_NAMES
from pillion_probes.layout import CONSTANTS

# Tables that only nsys has; each of its schemas has one at least, and extracts of them the texts.
MARKS = (
    "StringIds",
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "META_DATA_CAPTURE",
    "TARGET_INFO_SESSION_START_TIME",
    "NVTX_EVENTS",
)

_RANGES, _CROSSING, _MARK = 59, 60, 34  # NVTX_EVENTS.eventType
_DEFINITIONS = (33, 75, 76)  # categories and domains
_KERNEL_ATTRIBUTES = {**KERNEL_COLUMNS, "graphNodeId": "graph node id"}
# Where a table is of no process or device, it tells of the profiler.
_NOT_READ = {"TARGET_INFO_SESSION_START_TIME", "ANALYSIS_DETAILS"}


def import_nsys(path: Path) -> Capture:
    """Read an export.

    Raises:
        CaptureError: it is no database.
        OSError: it cannot be read.
    """
    return _Import.of_file(path)


class _Import(DatabaseImport):
    texts_in = ("StringIds", "id", "value")

    def capture(self) -> Capture:
        self._add_nvtx()
        for table in sorted(self._database.tables):
            self._add_calls(table)
        self._add_kernels()
        self._add_copies("MEMCPY", "memcpy", "copyKind", MEMCPY_NAMES)
        self._add_copies("MEMSET", "memset", "memKind", {})
        self._add_copies("SYNCHRONIZATION", "sync", "syncType", SYNC_NAMES)
        tables = self._profile.tables()
        meta = self._meta()
        if self._has("COMPOSITE_EVENTS", "id", "start", "globalTid"):
            tables |= samples_tables(self._database, self._texts, tables["events"], self._losses)
            self._read.add("SAMPLING_CALLCHAINS")
            meta |= sampling_meta(tables["samples"])
        if self._has("SCHED_EVENTS", "start", "globalTid", "isSchedIn"):
            tables["waits"] = waits_table(self._database, tables["events"], self._losses)
        self._database.count_unread(self._read | _NOT_READ, ("start", "timestamp", "rawTimestamp"))
        tables |= self._names(set(np.unique(tables["events"]["pid"]).tolist()))
        path = self._database.path
        return imported(path, "nsys", tables, self._profile.strings.texts, self._losses, meta)

    def _add_nvtx(self) -> None:
        table = "NVTX_EVENTS"
        if not self._has(table, "start"):
            return
        usual = 0 if self._database.has(table, "eventType") else _RANGES
        defaults = {"start": 0, "end": -TIME_MAX_NS, "eventType": usual, "globalTid": 0, "endGlobalTid": 0}
        rows = self._database.integers(table, defaults)
        texts = list(self._database.rows(table, ("text", "textId")))
        # A table that is damaged may give more rows the second time.
        count = min(len(texts), len(rows["start"]))
        rows = {name: column[:count] for name, column in rows.items()}
        kind = rows["eventType"]
        known = np.isin(kind, (_RANGES, _CROSSING, _MARK))
        others = int(np.count_nonzero(~known & ~np.isin(kind, _DEFINITIONS)))
        self._losses.add("unread_rows", others, f"events of other types in {table}")
        places = np.flatnonzero(known)
        rows = {name: column[places] for name, column in rows.items()}
        columns = self._profile.nvtx_columns([self._text(*texts[place]) for place in places.tolist()])
        is_mark, is_open = rows["eventType"] == _MARK, rows["end"] == -TIME_MAX_NS
        unfinished = is_open & ~is_mark
        self._losses.add("unfinished", int(np.count_nonzero(unfinished)), f"ranges without an end in {table}")
        last = max(int(rows["end"].max(initial=0)), int(rows["start"].max(initial=0)))
        end_tid = np.where(rows["endGlobalTid"] != 0, rows["endGlobalTid"], rows["globalTid"])
        crossing = rows["eventType"] == _CROSSING
        flags = np.where(crossing, CONSTANTS["PLN_ASYNC"], 0) | np.where(unfinished, CONSTANTS["PLN_UNFINISHED"], 0)
        columns |= {
            **thread_of(rows["globalTid"]),
            "end_tid": thread_of(end_tid)["tid"],
            "start_ns": rows["start"],
            "end_ns": np.where(is_mark, rows["start"], np.where(is_open, last, rows["end"])),
            "kind": np.where(is_mark, CONSTANTS["PLN_MARK"], CONSTANTS["PLN_RANGE"]),
            "flags": flags,
        }
        self._profile.add_events("user_annotation", columns)

    def _text(self, text: Any, number: Any) -> str:
        if isinstance(text, str) and text:
            return text
        return self._texts.get(number, "") if isinstance(number, int) else ""

    def _add_calls(self, table: str) -> None:
        """Any table of what threads did: CUDA's calls, those of libraries and of the operating system."""
        if not self._has(table, "start", "end", "globalTid", "nameId"):
            return
        wanted = ("start", "end", "globalTid", "nameId", "correlationId", "returnValue")
        rows = self._database.integers(table, dict.fromkeys(wanted, 0))
        names = self._profile.rows_of(self._texts, rows["nameId"], "call")
        category: str | Labels = "overhead" if table.endswith("OVERHEAD") else table.lower().removesuffix("_events")
        if table == f"{CUPTI}RUNTIME":
            texts = self._profile.strings.texts
            is_driver = [not text.startswith("cuda") and text.startswith("cu") for text in texts]
            category = Labels(np.array(is_driver, np.int32)[names], ("cuda_runtime", "cuda_driver"))
        self._profile.add_events(
            category,
            {
                **thread_of(rows["globalTid"]),
                "name": names,
                "start_ns": rows["start"],
                "end_ns": rows["end"],
                "correlation": rows["correlationId"] if table.startswith(CUPTI) else np.zeros_like(rows["start"]),
                "attributes": self._profile.attributes({"return value": rows["returnValue"]}, only_nonzero),
            },
        )

    def _pids_of_devices(self, table: str, count: int) -> Array:
        pid: Array = thread_of(self._database.integers(table, {"globalPid": 0})["globalPid"])["pid"]
        return pid

    def _add_kernels(self) -> None:
        table = f"{CUPTI}KERNEL"
        if not self._has(table, "start", "end"):
            return
        has_long = self._database.has(table, "demangledName")
        name = "demangledName" if has_long else "shortName"
        rows, columns = self._device_rows(table, (name, *_KERNEL_ATTRIBUTES))
        columns["name"] = self._profile.rows_of(self._texts, rows[name], "kernel")
        columns["attributes"] = self._profile.attributes(
            {label: rows[key] for key, label in _KERNEL_ATTRIBUTES.items()}, kernel_attributes
        )
        self._profile.add_activities("kernel", columns)

    def _names(self, pids: set[int]) -> Tables:
        """The tables ``processes`` and ``threads``, of these processes."""
        processes: dict[int, str] = {}
        threads: dict[tuple[int, int], str] = {}
        if self._has("PROCESSES", "globalPid", "name"):
            for number, name in self._database.rows("PROCESSES", ("globalPid", "name")):
                if isinstance(number, int) and isinstance(name, str) and (pid := number >> 24 & 0xFFFFFF) in pids:
                    processes[pid] = name
        if self._database.has("ThreadNames", "nameId", "globalTid"):
            for name, number in self._database.rows("ThreadNames", ("nameId", "globalTid")):
                if isinstance(number, int) and (pid := number >> 24 & 0xFFFFFF) in pids and name in self._texts:
                    threads[pid, number & 0xFFFFFF] = self._texts[name]
        return {"processes": processes_table(processes), "threads": threads_table(threads)}

    def _meta(self) -> dict[str, Any]:
        """Wall-clock time, and what the export says about itself."""
        meta: dict[str, Any] = {"trace": {}}
        for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
            if self._database.has(table, "name", "value"):
                meta["trace"] |= {str(name): value for name, value in self._database.rows(table, ("name", "value"))}
        table = "TARGET_INFO_SESSION_START_TIME"
        if self._database.has(table, "utcEpochNs"):
            # Times are of the target's clock; without its time at the start they count from there.
            rows = self._database.integers(table, {"utcEpochNs": 0, "systemClockNs": 0})
            if len(rows["utcEpochNs"]):
                meta["realtime_offset_ns"] = int(rows["utcEpochNs"][0]) - int(rows["systemClockNs"][0])
        return meta
