"""What Nsight Systems knows of threads: samples of their stacks, and when they were on a CPU.

COMPOSITE_EVENTS has a row for each sample, SAMPLING_CALLCHAINS one for each of its frames (stackDepth 0 is the
innermost), SCHED_EVENTS one for each time that a thread came to a CPU or left it; by the documentation of the exports.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion._demangle import FunctionDemangler
from pillion._tables import Array, Columns, Tables, from_rows
from pillion.importers.assembly import clean_times
from pillion.importers.database import Database
from pillion.importers.losses import Losses
from pillion.importers.sample_gaps import usual_gap_ns
from pillion.merge.ranges import enclosing

_KERNEL = ("[kernel", "[guest.kernel")


def thread_of(number: Array) -> Columns:
    """pid and tid of serialized global ids."""
    return {"pid": number >> 24 & 0xFFFFFF, "tid": number & 0xFFFFFF}


def samples_tables(database: Database, texts: dict[int, str], events: Columns, losses: Losses) -> Tables:
    """The tables ``samples``, ``stacks`` and ``frames``.

    Nothing says for how long a sample stands, so it is the usual distance of two of a thread.
    """
    rows = database.integers("COMPOSITE_EVENTS", {"id": 0, "start": 0, "cpu": 0, "globalTid": 0})
    usable = clean_times(rows["start"], np.zeros_like(rows["start"]), losses)[0]
    order = np.flatnonzero(usable)[np.argsort(rows["start"][usable], kind="stable")]
    rows = {name: column[order] for name, column in rows.items()}
    tables, stack_of = _stacks(database, texts)
    where = _place(rows["globalTid"], rows["cpu"])
    gap_ns = usual_gap_ns(where["pid"], where["tid"], rows["start"])
    tables["samples"] = {
        "ts_ns": rows["start"],
        **where,
        "weight_ns": np.full(len(order), gap_ns),
        "flags": np.zeros(len(order), np.uint16),
        "stack": np.array([stack_of.get(number, 0) for number in rows["id"].tolist()], np.int64),
        **_innermost(events, where, rows["start"]),
    }
    return tables


def sampling_meta(samples: Columns) -> dict[str, Any]:
    """What a capture says of its samples."""
    gap_ns = int(samples["weight_ns"][0]) if len(samples["weight_ns"]) else 0
    return {"period_ns": gap_ns, "rate_hz": round(1e9 / gap_ns) if gap_ns else 0}


def waits_table(database: Database, events: Columns, losses: Losses) -> Columns:
    """The table ``waits``: from each time that a thread left a CPU to the next that it came to one.

    Why it left and when it could go on is not known. What began before the profile or ended after it is no wait;
    a switch that another one of the same kind follows is counted.
    """
    rows = database.integers("SCHED_EVENTS", {"start": 0, "cpu": 0, "isSchedIn": 0, "globalTid": 0})
    order = np.lexsort((rows["start"], rows["globalTid"]))
    rows = {name: column[order] for name, column in rows.items()}
    is_in = rows["isSchedIn"] != 0
    same_thread = rows["globalTid"][1:] == rows["globalTid"][:-1]
    losses.add("switches", int(np.count_nonzero(same_thread & (is_in[1:] == is_in[:-1]))), "in SCHED_EVENTS")
    is_idle = rows["globalTid"][:-1] & 0xFFFFFF == 0
    left = np.flatnonzero(same_thread & ~is_in[:-1] & is_in[1:] & ~is_idle)
    usable, start, end = clean_times(rows["start"][left], rows["start"][left + 1] - rows["start"][left], losses)
    by_start = np.argsort(start, kind="stable")
    left, start, end = left[usable][by_start], start[by_start], end[by_start]
    where = _place(rows["globalTid"][left], rows["cpu"][left])
    nothing = np.zeros(len(left), np.int64)
    return {
        "start_ns": start,
        "end_ns": end,
        **where,
        "flags": nothing.astype(np.uint16),
        "stack": nothing,
        **_innermost(events, where, start),
        "runnable_ns": nothing,
        "state": nothing.astype(np.uint16),
        "waker_pid": nothing.astype(np.uint32),
        "waker_tid": nothing.astype(np.uint32),
    }


def _place(number: Array, cpu: Array) -> Columns:
    where = {name: column.astype(np.uint32) for name, column in thread_of(number).items()}
    return {**where, "cpu": (cpu & 0xFFFF).astype(np.uint16)}


def _innermost(events: Columns, where: Columns, time_ns: Array) -> Columns:
    """The event that was open on the thread, and its name."""
    event = enclosing(events, where["pid"], where["tid"], time_ns)
    names = np.append(events["name"], 0)[event]  # −1 is the last
    return {"event": event.astype(np.int64), "range_name": names.astype(np.int32)}


def _stacks(database: Database, texts: dict[int, str]) -> tuple[Tables, dict[int, int]]:
    """The tables ``frames`` and ``stacks``, and the row of the stack of each sample's number."""
    frames: dict[tuple[str, str, str], int] = {}
    stacks: dict[tuple[int, ...], int] = {(): 0}
    stack_of: dict[int, int] = {}
    table = "SAMPLING_CALLCHAINS"
    if database.has(table, "id", "symbol", "stackDepth"):
        columns = {"id": 0, "stackDepth": 0, "symbol": 0, "module": 0, "kernelMode": 0}
        rows = database.integers(table, columns)
        order = np.lexsort((rows["stackDepth"], rows["id"]))
        numbers = rows["id"][order]
        frame = np.array(_frames(rows, texts, frames), np.int64)[order]
        begins = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1)) if len(numbers) else numbers
        for number, chain in zip(numbers[begins].tolist(), np.split(frame, begins[1:])):
            stack_of[number] = stacks.setdefault(tuple(chain.tolist()), len(stacks))
    made = [(row, kind, name, "", 0, module) for (kind, name, module), row in frames.items()]
    return {
        "frames": from_rows("frames", made),
        "stacks": from_rows("stacks", [(row, list(stack)) for stack, row in stacks.items()]),
    }, stack_of


def _frames(rows: dict[str, Array], texts: dict[int, str], frames: dict[tuple[str, str, str], int]) -> list[int]:
    """The row of each entry's frame."""
    known: dict[tuple[int, int, int], int] = {}
    demangle = FunctionDemangler()
    made = []
    for key in zip(rows["symbol"].tolist(), rows["module"].tolist(), rows["kernelMode"].tolist()):
        if key not in known:
            name, module = texts.get(key[0]) or "[unknown]", texts.get(key[1], "")
            kind = "kernel" if key[2] or module.startswith(_KERNEL) else "native"
            known[key] = frames.setdefault((kind, demangle(name), module), len(frames))
        made.append(known[key])
    return made
