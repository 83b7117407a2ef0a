"""A file for speedscope: each thread's ranges as they opened and closed, its samples and its waits as stacks.

The format: https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources and the schema that it names. What
does not nest with the others of its thread or stream is a profile beside it. Times are nanoseconds from the start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from pillion._tables import Array, Tables
from pillion.export._file import binary_output
from pillion.export._json_pieces import integers, parts, picked
from pillion.export._json_rows import Elements, quoted
from pillion.export._places import DeviceNames, Places, streams, threads
from pillion.export._rows import words
from pillion.export._tracks import brackets, lanes
from pillion.model.tree import is_async
from pillion_probes.layout import CONSTANTS

if TYPE_CHECKING:
    from pillion._capture import Capture

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_OPEN_CLOSE = words([b',\n{"type":"O","frame":', b',\n{"type":"C","frame":'])


def write_speedscope(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write the file; gzipped where the path ends in ``.gz``.

    Raises:
        OSError: the file cannot be written.
    """
    tables = capture.columns
    with binary_output(path) as file:
        file.write(b'{"$schema":%b,"exporter":"pillion",' % quoted(_SCHEMA))
        file.write(b'"name":%b,\n"shared":{"frames":[' % quoted(os.fspath(path)))
        used = np.unique(np.concatenate([tables["events"]["name"], tables["activities"]["name"]]))
        texts = tables["strings"]["text"]
        Elements(file).write(b"".join([b',\n{"name":%b}' % quoted(texts[name]) for name in used.tolist()]))
        rest = [b",\n" + json.dumps(frame).encode() for frame in _frames(tables)]
        Elements(file, is_first=not len(used)).write(b"".join(rest))
        file.write(b']},\n"profiles":[')
        writer = _Profiles(file, used, capture.meta["start_ns"])
        _write_ranges(writer, tables)
        _write_activities(writer, tables, DeviceNames(capture.meta))
        waits = tables["waits"]
        _write_stacks(writer, tables, "samples", "on CPU", tables["samples"]["weight_ns"])
        _write_stacks(writer, tables, "waits", "off CPU", np.maximum(waits["end_ns"] - waits["start_ns"], 0))
        file.write(b"\n]}\n")


def _frames(tables: Tables) -> Iterator[dict[str, Any]]:
    frames = tables["frames"]
    for name, file, line in zip(*(frames[key].tolist() for key in ("name", "file", "line"))):
        where = {"file": file, "line": max(line, 0)} if file else {}
        yield {"name": name or "[unknown]", **where}


def _write_ranges(writer: _Profiles, tables: Tables) -> None:
    """A profile for each thread, and more for ranges that ended on another thread than they began on."""
    events = tables["events"]
    is_mark = events["kind"] == CONSTANTS["PLN_MARK"]
    is_crossing = is_async(events)
    for rows, suffix in ((~is_mark & ~is_crossing, ""), (~is_mark & is_crossing, " async")):
        names, start, end, pid, tid = (events[key][rows] for key in ("name", "start_ns", "end_ns", "pid", "tid"))
        writer.evented(threads(tables, pid, tid), suffix, names, start, end)


def _write_activities(writer: _Profiles, tables: Tables, names: DeviceNames) -> None:
    activities = tables["activities"]
    place = streams(activities["device"], activities["stream"], names)
    writer.evented(place, "", activities["name"], activities["start_ns"], activities["end_ns"])


def _write_stacks(writer: _Profiles, tables: Tables, table: str, suffix: str, weight_ns: Array) -> None:
    rows = tables[table]
    used, places = np.unique(rows["stack"], return_inverse=True)
    stacks = [tables["stacks"]["frames"][stack].tolist() for stack in used.tolist()]
    writer.sampled(threads(tables, rows["pid"], rows["tid"]), f" {suffix}", stacks, places, weight_ns)


class _Profiles:
    """Writes profiles.

    Args:
        file: where they go.
        names: the rows of strings that are frames: frame i is names[i], and behind them come those of stacks.
        start_ns: what times are relative to.
    """

    def __init__(self, file: IO[bytes], names: Array, start_ns: int) -> None:
        self._file = file
        self._names = names
        self._start_ns = start_ns
        self._is_first = True

    def evented(self, places: Places, suffix: str, name: Array, start_ns: Array, end_ns: Array) -> None:
        """A profile for each place, and more for what overlaps there."""
        end_ns = np.maximum(start_ns, end_ns)
        frame = np.searchsorted(self._names, name)
        track = places.row.astype(np.int64) << 32 | lanes(places.row, start_ns, end_ns)
        point, is_end = brackets(track, start_ns, end_ns)
        time_ns = np.where(is_end, end_ns[point], start_ns[point]) - self._start_ns
        tracks, begins = np.unique(track[point], return_index=True)
        for key, begin, end in zip(tracks.tolist(), begins.tolist(), [*begins[1:].tolist(), len(point)]):
            place, lane = key >> 32, key & 0xFFFF_FFFF
            self._begin("evented", places.names[place] + suffix + f" overlapping {lane}" * (lane > 0))
            values = (int(time_ns[begin]), int(time_ns[end - 1]))
            self._file.write(b'"startValue":%d,"endValue":%d,"events":[' % values)
            elements = Elements(self._file)
            for part in parts(end - begin):
                some = slice(begin + part.start, begin + part.stop)
                heads = picked(_OPEN_CLOSE, is_end[some])
                frames, times = integers(b"", frame[point[some]]), integers(b',"at":', time_ns[some])
                elements.write_rows(part.stop - part.start, heads, frames, times, b"}")
            self._file.write(b"]}")

    def sampled(self, places: Places, suffix: str, stacks: list[list[int]], stack: Array, weight_ns: Array) -> None:
        """A profile for each place; stacks are leaf first."""
        first = len(self._names)
        listed = words([b",\n" + json.dumps([first + frame for frame in frames[::-1]]).encode() for frames in stacks])
        order = np.argsort(places.row, kind="stable")
        ends = np.cumsum(np.bincount(places.row, minlength=len(places.names))).tolist()
        for name, begin, end in zip(places.names, [0, *ends], ends):
            rows = order[begin:end]
            self._begin("sampled", name + suffix)
            self._file.write(b'"startValue":0,"endValue":%d,"samples":[' % int(weight_ns[rows].sum()))
            elements = Elements(self._file)
            elements.write_rows(len(rows), picked(listed, stack[rows]))
            self._file.write(b'],"weights":[')
            Elements(self._file).write_rows(len(rows), integers(b",", weight_ns[rows]))
            self._file.write(b"]}")

    def _begin(self, kind: str, name: str) -> None:
        self._file.write(b"\n" if self._is_first else b",\n")
        self._is_first = False
        self._file.write(b'{"type":%b,"name":%b,"unit":"nanoseconds",' % (quoted(kind), quoted(name)))
