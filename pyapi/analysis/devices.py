"""What devices did: by kernel, by device and stream, and by the place from where it was launched."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pillion._tables import Array, Columns, Tables, column, length, text_column
from pillion.analysis.dominant import dominant
from pillion.model.columns import WORK
from pillion.model.stacks import StackTexts
from pillion.model.tree import sums


class _Work(NamedTuple):
    """The activities that are work of a device; a value for each.

    Attributes:
        kind: a place in ``kinds``.
        event, stack: rows of what caused it and of where that was called, 0 for no stack.
        launch: the row of its launch, −1 for none.
        pid: of the process for which it was done, 0 where nobody knows.
    """

    kinds: tuple[str, ...]
    kind: Array
    name: Array
    device: Array
    stream: Array
    start_ns: Array
    end_ns: Array
    event: Array
    launch: Array
    stack: Array
    pid: Array

    @property
    def duration_ns(self) -> Array:
        duration: Array = self.end_ns - self.start_ns
        return duration


def _work(tables: Tables) -> _Work:
    events, activities = tables["events"], tables["activities"]
    rows = np.flatnonzero(activities["kind"].isin(*WORK))
    values = {name: activities[name][rows] for name in ("name", "device", "stream", "start_ns", "end_ns", "event")}
    launch = column("activities", activities, "launch")[rows]
    stack = pid = np.zeros(len(rows), np.int64)
    if length(events):
        pid = np.where(
            launch >= 0, events["pid"][launch], np.where(values["event"] >= 0, events["pid"][values["event"]], 0)
        )
        of_event = column("events", events, "stack")
        of_launch, of_cause = (np.where(row >= 0, of_event[row], 0) for row in (launch, values["event"]))
        stack = np.where(of_launch > 0, of_launch, of_cause)
    kinds = activities["kind"]
    values["end_ns"] = np.maximum(values["start_ns"], values["end_ns"])
    return _Work(kinds.texts, kinds.codes[rows], launch=launch, stack=stack, pid=pid, **values)


def kernels(tables: Tables) -> Columns:
    """One row for each name of a kernel or copy on each device.

    ``busy_share`` is its part of the time for which the device was busy; what runs beside others on several streams
    counts as well, so shares can exceed 1 together. ``range``, ``launched_at`` and ``stack`` are those of most of its
    time: the innermost range or operator, the Python function that called it, and the stack, innermost first.
    """
    work = _work(tables)
    duration = work.duration_ns
    groups, group = _groups(work.name, work.kind, work.device)
    count = len(groups[0])
    calls, total = np.bincount(group, minlength=count), sums(group, duration, count)
    longest = np.zeros(count, np.int64)
    np.maximum.at(longest, group, duration)
    devices, place = np.unique(work.device, return_inverse=True)
    busy = _busy(place, work.start_ns, work.end_ns, len(devices)).busy_ns[np.searchsorted(devices, groups[2])]
    stacks = dominant(group, work.stack, duration, count)
    texts = StackTexts(tables)
    return {
        "name": tables["strings"]["text"][groups[0]],
        "kind": text_column([work.kinds[kind] for kind in groups[1].tolist()]),
        "device": groups[2].astype(np.int64),
        "calls": calls.astype(np.int64),
        "device_ns": total,
        "mean_ns": total // np.maximum(calls, 1),
        "max_ns": longest,
        "busy_share": total / np.maximum(busy, 1),
        "range": _range_names(tables, dominant(group, work.event, duration, count)),
        "launched_at": text_column([(texts[stack] or [""])[0] for stack in stacks.tolist()]),
        "stack": text_column([";".join(texts[stack]) for stack in stacks.tolist()]),
    }


def launches(tables: Tables) -> Columns:
    """One row for each place from where work was launched: a stack and the innermost range or operator.

    ``name``, ``file`` and ``line`` are the innermost function of the stack; without stacks the range is all there is.
    ``caller`` tells places of one innermost function apart: the innermost caller that no other of them has.
    """
    work = _work(tables)
    duration = work.duration_ns
    event_names = tables["events"]["name"]
    named = np.where(work.event >= 0, event_names[work.event], 0) if len(event_names) else work.event * 0
    groups, group = _groups(work.stack, named)
    count = len(groups[0])
    launched = np.unique(group[work.launch >= 0] << 32 | work.launch[work.launch >= 0]) >> 32
    frames, stacks, texts = tables["frames"], tables["stacks"]["frames"], StackTexts(tables)
    leaves = [next(iter(stacks[stack].tolist()), -1) for stack in groups[0].tolist()]
    entries = [texts[stack] for stack in groups[0].tolist()]
    return {
        "name": text_column([frames["name"][leaf] if leaf >= 0 else "" for leaf in leaves]),
        "file": text_column([frames["file"][leaf] if leaf >= 0 else "" for leaf in leaves]),
        "line": np.array([frames["line"][leaf] if leaf >= 0 else 0 for leaf in leaves], np.int64),
        "range": tables["strings"]["text"][groups[1]],
        "launches": np.bincount(launched, minlength=count).astype(np.int64),
        "activities": np.bincount(group, minlength=count).astype(np.int64),
        "device_ns": sums(group, duration, count),
        "caller": text_column(_callers(entries, groups[1].tolist())),
        "stack": text_column([";".join(stack) for stack in entries]),
    }


def _callers(stacks: list[list[str]], ranges: list[int]) -> list[str]:
    """Of each stack the entry by which it differs from all others of its range and leaf; "" where it has none."""
    callers = [""] * len(stacks)
    leaves = _alike(range(len(stacks)), [(of, *stack[:1]) for of, stack in zip(ranges, stacks)])
    alike = [rows for rows in leaves if len(rows) > 1]
    for depth in range(1, max(map(len, stacks), default=0)):
        entries = [stack[depth] if depth < len(stack) else "" for stack in stacks]
        parts = [part for rows in alike for part in _alike(rows, entries)]
        for part in parts:
            if len(part) == 1:
                callers[part[0]] = entries[part[0]]
        alike = [part for part in parts if len(part) > 1]
    return callers


def _alike(rows: Iterable[int], keys: Sequence[Hashable]) -> list[list[int]]:
    """The rows, those of one key together."""
    parts: dict[Hashable, list[int]] = {}
    for row in rows:
        parts.setdefault(keys[row], []).append(row)
    return list(parts.values())


def devices(tables: Tables) -> Columns:
    """One row for each device (``stream`` is −1), and one for each of its streams.

    Processes number their streams alike: a number that several use has a row for each, with its ``pid``, elsewhere 0.
    ``busy_ns`` is the time in which anything ran there, and ``busy_share`` its part of the time from the first start to
    the last end; ``gaps`` is how often nothing ran in between, ``idle_ns`` for how long, ``longest_gap_ns`` at most.
    """
    work = _work(tables)
    none = np.zeros(len(work.device), np.int64)
    whole, of_stream = _groups(work.device, none - 1, none), _groups(work.device, work.stream, _process(work))
    parts = []
    for groups, group in (whole, of_stream):
        count = len(groups[0])
        busy = _busy(group, work.start_ns, work.end_ns, count)
        numbers = {name: values.astype(np.int64) for name, values in zip(("device", "stream", "pid"), groups)}
        parts.append({**numbers, "activities": np.bincount(group, minlength=count).astype(np.int64), **busy._asdict()})
    columns: Columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    columns["busy_share"] = columns["busy_ns"] / np.maximum(columns["busy_ns"] + columns["idle_ns"], 1)
    places = zip(*(columns[name].tolist() for name in ("device", "stream", "pid")))
    return {"name": text_column([_place_name(*place) for place in places]), **columns}


def _process(work: _Work) -> Array:
    """The process of each activity where several use its stream's number, 0 elsewhere."""
    stream = _groups(work.device, work.stream)[1]
    known = work.pid > 0
    least, most = np.full(len(stream), np.iinfo(np.int64).max), np.zeros(len(stream), np.int64)
    np.minimum.at(least, stream[known], work.pid[known])
    np.maximum.at(most, stream[known], work.pid[known])
    return np.where((least < most)[stream], work.pid, 0)


def _place_name(device: int, stream: int, pid: int) -> str:
    name = f"GPU {device}" if device >= 0 else "unknown GPU"
    name = f"{name} stream {stream}" if stream >= 0 else name
    return f"{name} of process {pid}" if pid else name


class _Busy(NamedTuple):
    """Of each group the time in which anything ran, and the times between in which nothing did."""

    busy_ns: Array
    idle_ns: Array
    gaps: Array
    longest_gap_ns: Array


def _busy(group: Array, start_ns: Array, end_ns: Array, count: int) -> _Busy:
    order = np.lexsort((start_ns, group))
    group, start_ns, end_ns = group[order], start_ns[order], end_ns[order]
    # The latest end so far in its group. Ends are ranked: times of several groups would not fit in one number.
    ends, rank = np.unique(end_ns, return_inverse=True)
    latest = ends[np.maximum.accumulate(group * max(len(ends), 1) + rank) % max(len(ends), 1)]
    is_first = np.diff(group, prepend=-1) > 0
    before = np.where(is_first, start_ns, np.concatenate([latest[:1], latest[:-1]]))
    gap = np.maximum(start_ns - before, 0)
    longest = np.zeros(count, np.int64)
    np.maximum.at(longest, group, gap)
    busy = np.maximum(end_ns - np.maximum(start_ns, before), 0)
    gaps = np.bincount(group, weights=gap > 0, minlength=count).astype(np.int64)
    return _Busy(sums(group, busy, count), sums(group, gap, count), gaps, longest)


def _groups(*columns: Array) -> tuple[list[Array], Array]:
    """The different combinations of values, a column each, and of each row the number of its combination."""
    number = np.zeros(len(columns[0]), np.int64)
    for values in columns:
        known, place = np.unique(values, return_inverse=True)
        number = np.unique(number * max(len(known), 1) + place, return_inverse=True)[1]
    _, first, group = np.unique(number, return_index=True, return_inverse=True)
    return [values[first] for values in columns], group


def _range_names(tables: Tables, event: Array) -> Array:
    names = tables["events"]["name"]
    rows = np.where(event >= 0, names[event], 0) if len(names) else event * 0
    found: Array = tables["strings"]["text"][rows]
    return found
