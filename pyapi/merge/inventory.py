"""From the JSON objects of a spool to tables: processes, threads, frames, stacks, losses, and the meta of a capture.

What is few and has text comes as JSON; every value is untrusted, so a field of the wrong type counts as absent.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import numpy as np

from pillion._demangle import FunctionDemangler
from pillion._tables import Array, Columns, from_rows
from pillion.merge.spool import Dropped, JsonObject, Spool

_U32_MAX = 2**32 - 1
_I64_MAX = 2**63 - 1

# Frames in the interpreter's own binary say in C what the Python frames below them say better.
_INTERPRETER = re.compile(r"(?:lib)?python3\.\d+")


def integer(item: JsonObject, key: str, default: int = 0, low: int = 0, high: int = _I64_MAX) -> int:
    """The integer at a key; ``default`` where it is absent, no integer or out of [low, high]."""
    value = item.get(key)
    return value if isinstance(value, int) and low <= value <= high else default


def text(item: JsonObject, key: str) -> str | None:
    """The text at a key; a list of words becomes one shell line; None where it is absent."""
    value = item.get(key)
    if isinstance(value, list):
        value = shlex.join(str(word) for word in value)
    # A lone surrogate is valid JSON, but neither Arrow nor a terminal can take it.
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else None


def _u32(item: JsonObject, key: str) -> int:
    return integer(item, key, high=_U32_MAX)


def processes_table(spool: Spool) -> Columns:
    """The recorded processes, by pid and start."""
    rows = [
        (
            _u32(item, "pid"),
            integer(item, "start_ns"),
            integer(item, "end_ns", -1),
            _u32(item, "ppid"),
            integer(item, "uid", -1),
            *(text(item, key) for key in ("comm", "cmdline", "python", "python_unavailable")),
        )
        for item in spool.objects["process"].values()
    ]
    return from_rows("processes", sorted(rows, key=lambda row: row[:2]))


def threads_table(spool: Spool, names: dict[tuple[int, int], str]) -> Columns:
    """The threads that the scheduler or a ring reported.

    Args:
        names: (pid, tid) to the name that a thread gave when it took its ring; it wins over the kernel's comm.
    """
    measured = {(_u32(item, "pid"), _u32(item, "tid")): item for item in spool.objects["thread"].values()}
    keys = ("on_cpu_ns", "off_cpu_ns", "runnable_ns", "switches", "first_ns", "last_ns")
    rows = []
    for thread in sorted(measured.keys() | names.keys()):
        item = measured.get(thread, {})
        name = names.get(thread) or text(item, "comm")
        rows.append((*thread, name, *(integer(item, key, -1) for key in keys)))
    return from_rows("threads", rows)


def stack_tables(spool: Spool) -> tuple[Columns, Columns, Array, Array, list[Dropped]]:
    """Frames and stacks, renumbered as rows.

    Returns:
        The frames table, the stacks table, the collector's stack ids ascending, the row of each, what was dropped.
    """
    frame_rows: dict[int, int] = {}
    frames: list[tuple[Any, ...]] = []
    demangle = FunctionDemangler()
    for (frame_id,), item in spool.objects["frame"].items():
        if isinstance(frame_id, int):
            frame_rows[frame_id] = len(frames)
            kind, name, file = (text(item, key) or "" for key in ("kind", "name", "file"))
            name = demangle(name) if kind == "native" else name
            frames.append(
                (len(frames), kind, name, file, integer(item, "line", high=2**31 - 1), text(item, "module") or "")
            )
    stacks: list[tuple[int, list[int]]] = [(0, [])]
    ids: list[int] = [0]
    bad = 0
    for (stack_id,), item in spool.objects["stack"].items():
        known = _known_frames(item.get("frames"), frame_rows)
        if not known or not isinstance(stack_id, int) or not 0 < stack_id <= _U32_MAX:
            bad += 1
            continue
        ids.append(stack_id)
        stacks.append((len(stacks), _user_stack(known, frames)))
    dropped = [Dropped("spool_corrupt", bad, "stacks without frames or with unknown ones")] if bad else []
    id_column = np.array(ids, np.int64)
    order = np.argsort(id_column)
    return from_rows("frames", frames), from_rows("stacks", stacks), id_column[order], order, dropped


def _known_frames(listed: Any, frame_rows: dict[int, int]) -> list[int]:
    """The rows of a stack's frame ids; none if one of them is no id of a frame."""
    if not isinstance(listed, list) or not all(isinstance(frame, int) and frame in frame_rows for frame in listed):
        return []
    return [frame_rows[frame] for frame in listed]


def _user_stack(stack: list[int], frames: list[tuple[Any, ...]]) -> list[int]:
    """Kernel frames, then native frames down to the interpreter's first one, then Python frames, leaf first."""
    of_kind: dict[str, list[int]] = {"kernel": [], "native": [], "python": []}
    for frame in stack:
        of_kind.setdefault(frames[frame][1], []).append(frame)
    native = of_kind["native"]
    if of_kind["python"]:
        for place, frame in enumerate(native):
            if _INTERPRETER.match(frames[frame][5]):
                native = native[:place]
                break
    return of_kind["kernel"] + native + of_kind["python"]


def losses_table(spool: Spool, dropped: list[Dropped]) -> Columns:
    """What the collector counted and what its spool lacks, by kind, pid and tid."""
    rows: list[tuple[Any, ...]] = [
        (text(item, "kind") or "", _u32(item, "pid"), _u32(item, "tid"), integer(item, "count"), None)
        for item in spool.objects["loss"].values()
    ]
    rows += [(kind, 0, 0, lost, place) for kind, lost, place in [*spool.dropped, *dropped]]
    if () not in spool.objects["end"]:
        rows.append(("unfinished", 0, 0, 1, "the collector stopped before its last drain"))
    return from_rows("losses", sorted(rows, key=lambda row: (row[:3], row[4] or "")))


def capture_meta(spool: Spool, last_ns: int) -> JsonObject:
    """The meta object with the fields of the end object; without one the capture ends at ``last_ns``."""
    meta = _fields(spool.objects["meta"].get((), {}))
    end = _fields(spool.objects["end"].get((), {}))
    for name in ("start_ns", "realtime_offset_ns", "rate_hz", "period_ns", "wait_threshold_ns"):
        meta[name] = integer(meta, name)
    meta["collector"] = text(meta, "collector") or ""
    meta["end_ns"] = integer(end, "end_ns", last_ns)
    meta["reason"] = text(end, "reason")
    meta["cost"] = end["cost"] if isinstance(end.get("cost"), dict) else {}
    return meta


def _fields(item: JsonObject) -> JsonObject:
    return {name: value for name, value in item.items() if name != "type"}


def region_starts(spool: Spool) -> Iterator[tuple[int, int, int]]:
    """(region, pid, start_ns) of every region; a region without an object of its own starts at 0."""
    pids = dict(spool.region_pids)
    starts = dict.fromkeys(pids, 0)
    for item in spool.objects["region"].values():
        region = _u32(item, "region")
        pids[region] = _u32(item, "pid")
        starts[region] = integer(item, "start_ns")
    for region, pid in pids.items():
        yield region, pid, starts[region]
