"""A trace in Kineto's dialect of Chrome's JSON, for chrome://tracing, Perfetto and the readers of torch's traces.

Ranges are slices on their thread's track; a range that ended on another thread is an async pair, since a track's slices
must nest. A wait is a slice below the range in which it happened. A sample is an instant; it and the waits refer to
``stackFrames`` with ``sf``. Times are microseconds since ``baseTimeNanoseconds``, which is wall-clock time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pillion._tables import Array, Columns, Tables
from pillion.analysis.waits import stack_reasons
from pillion.export._file import text_output
from pillion.model.tree import is_async
from pillion_probes.layout import CONSTANTS

if TYPE_CHECKING:
    from pillion._capture import Capture

_CHUNK = 65_536


def write_chrome_trace(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write the trace; gzipped where the path ends in ``.gz``.

    Raises:
        OSError: the file cannot be written.
    """
    meta, tables = capture.meta, capture.columns
    start_ns = meta["start_ns"]
    head = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": start_ns + meta["realtime_offset_ns"],
        "traceName": os.fspath(path),
        "host_name": str(meta.get("host", "")),
        "deviceProperties": [],
        "pillion": meta,
    }
    trace = _Trace(tables, start_ns)
    with text_output(path) as file:
        file.write(json.dumps(head)[:-1])
        file.write(',\n"stackFrames": {')
        file.write(",\n".join(trace.stack_frames()))
        file.write('},\n"traceEvents": [\n')
        separator = ""
        for chunk in trace.events():
            file.write(separator)
            file.write(chunk)
            separator = ",\n"
        file.write("\n]}\n")


def _quoted(texts: Array) -> Array:
    """JSON texts for each text, to be looked up by row."""
    return np.array([json.dumps(text) for text in texts.tolist()], dtype=object)


class _Trace:
    """The parts of a trace as JSON text."""

    def __init__(self, tables: Tables, start_ns: int) -> None:
        self._tables = tables
        self._start_ns = start_ns
        self._strings = _quoted(tables["strings"]["text"])
        self._leaves = _quoted(stack_reasons(tables))

    def events(self) -> Iterator[str]:
        """Chunks of events, each without a comma at its end."""
        yield from _chunks("%s", (np.array(list(self._names()), dtype=object),))
        yield from self._ranges()
        yield from self._waits()
        yield from self._samples()

    def stack_frames(self) -> Iterator[str]:
        """Members of ``stackFrames``: stack S is frame ``S.0``, its caller ``S.1``, and so on."""
        frames, stacks = self._tables["frames"], self._tables["stacks"]["frames"]
        names, kinds = _quoted(frames["name"]), _quoted(frames["kind"])
        for stack in range(1, len(stacks)):
            listed = stacks[stack].tolist()
            for depth, frame in enumerate(listed):
                parent = f',"parent":"{stack}.{depth + 1}"' if depth + 1 < len(listed) else ""
                yield f'"{stack}.{depth}":{{"name":{names[frame]},"category":{kinds[frame]}{parent}}}'

    def _us(self, time_ns: Array) -> Array:
        return (time_ns - self._start_ns) / 1e3

    def _names(self) -> Iterator[str]:
        for pid, name in zip(*(self._tables["processes"][key].tolist() for key in ("pid", "comm"))):
            yield _metadata("process_name", pid, 0, name)
        for pid, tid, name in zip(*(self._tables["threads"][key].tolist() for key in ("pid", "tid", "name"))):
            yield _metadata("thread_name", pid, tid, f"{name or 'thread'} ({tid})")

    def _ranges(self) -> Iterator[str]:
        events = self._tables["events"]
        args = self._range_args(events)
        is_mark = events["kind"] == CONSTANTS["PLN_MARK"]
        crossing = is_async(events) & ~is_mark
        slices = np.flatnonzero(~is_mark & ~crossing)
        yield from _chunks(
            '{"ph":"X","cat":"user_annotation","name":%s,"pid":%d,"tid":%d,"ts":%.3f,"dur":%.3f,"args":{%s}}',
            (*self._placed(events, slices), (events["end_ns"] - events["start_ns"])[slices] / 1e3, args[slices]),
        )
        marks = np.flatnonzero(is_mark)
        yield from _chunks(
            '{"ph":"i","s":"t","cat":"user_annotation","name":%s,"pid":%d,"tid":%d,"ts":%.3f,"args":{%s}}',
            (*self._placed(events, marks), args[marks]),
        )
        pairs = np.flatnonzero(crossing)
        begin = '{"ph":"b","cat":"user_annotation","name":%s,"pid":%d,"tid":%d,"ts":%.3f,"id":%d,"args":{%s}}'
        yield from _chunks(begin, (*self._placed(events, pairs), pairs, args[pairs]))
        ends = {**events, "tid": events["end_tid"], "start_ns": events["end_ns"]}
        end = '{"ph":"e","cat":"user_annotation","name":%s,"pid":%d,"tid":%d,"ts":%.3f,"id":%d}'
        yield from _chunks(end, (*self._placed(ends, pairs), pairs))

    def _placed(self, events: Columns, rows: Array) -> tuple[Array, ...]:
        """Name, pid, tid and ts of events."""
        names = self._strings[events["name"][rows]]
        return names, events["pid"][rows], events["tid"][rows], self._us(events["start_ns"][rows])

    def _range_args(self, events: Columns) -> Array:
        """The members of each range's ``args``."""
        args = np.full(len(events["id"]), "", dtype=object)
        for row in np.flatnonzero(events["args"]).tolist():
            args[row] = f'"args":{self._strings[events["args"][row]]}'
        for row in np.flatnonzero(events["flags"] & CONSTANTS["PLN_UNFINISHED"]).tolist():
            args[row] = ",".join(filter(None, (args[row], '"unfinished":true')))
        for row in np.flatnonzero(events["value"]).tolist():
            args[row] = ",".join(filter(None, (args[row], f'"value":{events["value"][row]}')))
        return args

    def _waits(self) -> Iterator[str]:
        waits = self._tables["waits"]
        yield from _chunks(
            '{"ph":"X","cat":"wait","name":%s,"pid":%d,"tid":%d,"ts":%.3f,"dur":%.3f,"sf":"%d.0",'
            '"args":{"runnable_us":%.3f,"waker_tid":%d}}',
            (
                self._leaves[waits["stack"]],
                waits["pid"],
                waits["tid"],
                self._us(waits["start_ns"]),
                np.maximum(waits["end_ns"] - waits["start_ns"], 0) / 1e3,
                waits["stack"],
                waits["runnable_ns"] / 1e3,
                waits["waker_tid"],
            ),
        )

    def _samples(self) -> Iterator[str]:
        samples = self._tables["samples"]
        yield from _chunks(
            '{"ph":"i","s":"t","cat":"sample","name":%s,"pid":%d,"tid":%d,"ts":%.3f,"sf":"%d.0",'
            '"args":{"cpu":%d,"weight_us":%.3f}}',
            (
                self._leaves[samples["stack"]],
                samples["pid"],
                samples["tid"],
                self._us(samples["ts_ns"]),
                samples["stack"],
                samples["cpu"],
                samples["weight_ns"] / 1e3,
            ),
        )


def _chunks(template: str, columns: tuple[Array, ...]) -> Iterator[str]:
    """The template filled with each row of the columns, many rows at a time, joined by commas."""
    for begin in range(0, len(columns[0]), _CHUNK):
        rows = zip(*(column[begin : begin + _CHUNK].tolist() for column in columns))
        yield ",\n".join([template % row for row in rows])


def _metadata(kind: str, pid: int, tid: int, name: str | None) -> str:
    return json.dumps({"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": {"name": name or ""}})
