"""The member ``samples`` of a trace: what a sampling profiler saw, each with its thread and its innermost frame."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import numpy as np

from pillion._tables import Array, Columns
from pillion.importers.assembly import TIME_MAX_NS
from pillion.importers.call_stacks import Stacks
from pillion.importers.losses import Losses
from pillion.importers.sample_gaps import usual_gap_ns
from pillion.merge.ranges import enclosing

_U16_MAX, _U32_MAX = 2**16 - 1, 2**32 - 1


class Sampled(NamedTuple):
    """Samples in the order of their time.

    Attributes:
        pid: −1 where the sample has none.
        period_ns: the usual distance of two samples of a thread, which is what each stands for.
    """

    ts_ns: Array
    pid: Array
    tid: Array
    cpu: Array
    stack: Array
    period_ns: int

    def table(self, events: Columns) -> Columns:
        """The table ``samples``; a sample without a process is of the one that has its thread."""
        known = dict(zip(events["tid"].tolist(), events["pid"].tolist()))
        pids = zip(self.pid.tolist(), self.tid.tolist())
        pid = np.array([pid if pid >= 0 else known.get(tid, 0) for pid, tid in pids], np.uint32)
        tid = self.tid.astype(np.uint32)
        event = enclosing(events, pid, tid, self.ts_ns)
        return {
            "ts_ns": self.ts_ns,
            "weight_ns": np.full(len(pid), self.period_ns),
            "pid": pid,
            "tid": tid,
            "cpu": self.cpu.astype(np.uint16),
            "flags": np.zeros(len(pid), np.uint16),
            "stack": self.stack,
            "event": event.astype(np.int64),
            "range_name": np.append(events["name"], 0)[event].astype(np.int32),
        }


def read_samples(listed: list[Any], stacks: Stacks, nodes: Any, losses: Losses) -> Sampled:
    """The samples, of which ``ts`` is in microseconds and ``sf`` the key of the innermost frame.

    Args:
        nodes: the member ``stackFrames``.
    """
    rows = []
    keys: dict[str, int] = {}
    for sample in listed:
        ts_ns = _nanoseconds(sample.get("ts")) if isinstance(sample, dict) else None
        if ts_ns is None:
            losses.add("bad_times", 1, "samples without a time that can be")
            continue
        leaf = sample.get("sf")
        row = keys.setdefault("" if leaf is None else str(leaf), len(keys))
        where = (("pid", _U32_MAX, -1), ("tid", _U32_MAX, 0), ("cpu", _U16_MAX, 0))
        rows.append((ts_ns, *(_integer(sample.get(name), high, default) for name, high, default in where), row))
    columns = np.array(rows, np.int64).reshape(-1, 5)
    time, pid, tid, cpu, stack = columns[np.argsort(columns[:, 0], kind="stable")].T.copy()
    row_of = np.array(stacks.of_keys(list(keys), nodes, losses), np.int64)
    return Sampled(time, pid, tid, cpu, row_of[stack], usual_gap_ns(pid, tid, time))


def _nanoseconds(value: Any) -> int | None:
    try:
        ns = round(Decimal(str(value)) * 1000) if isinstance(value, (int, float, str)) else None
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return ns if ns is not None and abs(ns) < TIME_MAX_NS else None


def _integer(value: Any, high: int, default: int) -> int:
    """A number, or its text, that fits."""
    if isinstance(value, str) and len(value) < 20 and value.isdecimal():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value <= high else default
