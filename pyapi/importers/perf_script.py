"""``perf script``'s text: samples with their stacks."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from pillion._capture import Capture
from pillion._demangle import FunctionDemangler
from pillion._errors import CaptureError
from pillion._tables import Array, Tables, from_rows
from pillion.importers.assembly import imported
from pillion.importers.losses import Losses
from pillion.importers.perf_lines import (
    INLINED,
    Frame,
    Header,
    frame,
    is_field,
    sample_header,
    sampled_frame,
    timeless_header,
)
from pillion.importers.sample_gaps import usual_gap_ns
from pillion.importers.threads import processes_table, threads_table

_LINE_MAX = 1 << 20
_KNOWN_MAX, _KNOWN_LINE_MAX = 100_000, 1_000
_CLOCKS = ("cpu-clock", "task-clock")
# Software events that count what happens.
_FAULTS = ("page-faults", "faults", "minor-faults", "major-faults", "alignment-faults", "emulation-faults")
_NOT_OF_TIME = {
    *_FAULTS,
    "context-switches",
    "cs",
    "cpu-migrations",
    "migrations",
    "cgroup-switches",
    "dummy",
    "bpf-output",
}
_DISTANCES = "samples earlier than the one above: `perf script --deltatime` writes distances, import it without"
_NO_COLUMN = "fields of samples that have no column: addresses, arguments of tracepoints, source lines"


def import_perf_script(path: Path) -> Capture:
    """Read the text, gzipped or not.

    Raises:
        CaptureError: there is no sample in it.
        OSError: it cannot be read.
    """
    reader = _Reader(path)
    reader.read()
    return reader.capture()


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._losses = Losses()
        self._samples: list[tuple[int, int, int, int, int, int, int]] = []  # ts, pid, tid, cpu, period, event, stack
        self._events: dict[str, int] = {}
        self._frames: dict[Frame, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {(): 0}
        self._names: dict[tuple[int, int], str] = {}
        self._header: Header | None = None
        self._has_times = False
        self._known: dict[str, Frame] = {}  # most lines are those of earlier samples
        self._is_record = False  # the last first line is that of a record, not of a sample
        self._stack: list[Frame] = []

    def read(self) -> None:
        """All lines."""
        with open(self._path, "rb") as file:
            is_gzip = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            lines = self._lines(gzip.GzipFile(fileobj=file) if is_gzip else file)
            for number, line in enumerate(lines, start=1):
                self._take(number, line)
        self._end_sample()

    def _lines(self, file: IO[bytes] | gzip.GzipFile) -> Iterator[str]:
        line = b"\n"
        try:
            while line := file.readline(_LINE_MAX):
                yield line.decode("utf-8", "replace")
                last = line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self._losses.add("gzip_damaged", 1, f"{self._path}: {error}")
        else:
            if not last.endswith(b"\n"):
                self._losses.add("perf_truncated", 1, f"{self._path} ends within a line")

    def _take(self, number: int, line: str) -> None:
        text = line.strip()
        header = None if line.startswith("\t") else self._header_of(line, text)  # so begin frames alone
        if header:
            self._end_sample()
            self._begin(header)
        elif not text:
            self._end_sample()
        elif not self._add(text, line[0].isspace()) and not text.startswith("#"):
            self._losses.add("bad_lines", 1, f"line {number:,} of {self._path}")

    def _header_of(self, line: str, text: str) -> Header | None:
        """Lines without a time count as samples until one with a time comes: a file has times or has none."""
        header = sample_header(text)
        if header and not self._has_times:
            self._has_times = True
            self._end_sample()
            self._losses.add("bad_lines", len(self._samples), "lines before the first sample")
            for found in (self._samples, self._events, self._names):
                found.clear()
        if header or self._has_times or (line[:1].isspace() and self._header and frame(text)):
            return header
        return timeless_header(text)

    def _begin(self, header: Header) -> None:
        self._is_record = header.is_record
        if header.is_record:
            self._losses.add("perf_records", 1, "records of perf that are no samples")
            self._losses.add("samples", header.lost, "samples that perf says were lost")
        else:
            self._header = header

    def _add(self, text: str, is_indented: bool) -> bool:
        """A line below the first of a sample; whether it is one of those that perf writes there."""
        if not self._header:
            return self._is_record and is_indented
        found = self._known.get(text) or frame(text)
        if found and (is_indented or text.endswith(")")):  # some have lost their white space
            if len(self._known) < _KNOWN_MAX and len(text) < _KNOWN_LINE_MAX:
                self._known[text] = found
            self._stack.append(found)
            return True
        if not (is_indented and is_field(text)):
            return False
        if self._stack and text.endswith(f" ({INLINED})"):  # with source lines that is said behind them
            self._stack[-1] = self._stack[-1]._replace(module=INLINED)
        self._losses.add("perf_fields", 1, _NO_COLUMN)
        return True

    def _end_sample(self) -> None:
        header, self._header = self._header, None
        if not header:
            return
        stack, self._stack = self._stack, []
        if header.rest:
            alone = None if stack else sampled_frame(header.rest)  # without call chains the only one is here
            stack += [alone] if alone else []
            self._losses.add("perf_fields", int(alone is None), _NO_COLUMN)
        numbers = tuple(self._frames.setdefault(it, len(self._frames)) for it in _outer_modules(stack))
        event = self._events.setdefault(header.event, len(self._events))
        row = self._stacks.setdefault(numbers, len(self._stacks))
        self._samples.append((header.ts_ns, header.pid, header.tid, header.cpu, header.period, event, row))
        self._names[header.pid, header.tid] = header.comm

    def capture(self) -> Capture:
        """What was read.

        Raises:
            CaptureError: nothing was.
        """
        if not self._samples:
            raise CaptureError(f"cannot import {self._path}", "there is no sample of `perf script` in it")
        rows = np.array(self._samples, np.int64)
        self._losses.add("no_times", 0 if self._has_times else len(rows), "samples without a time: all are at 0")
        back = int(np.count_nonzero(np.diff(rows[:, 0]) < 0))
        self._losses.add("unordered_times", back if 4 * back > len(rows) + 4 else 0, _DISTANCES)
        event = self._main_event(np.bincount(rows[:, 5]))
        name = list(self._events)[event]
        others = int(np.count_nonzero(rows[:, 5] != event))
        self._losses.add("other_events", others, f"samples of other events than {name}")
        rows = rows[rows[:, 5] == event]
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        weight, period_ns = _weights(rows, name in _CLOCKS)
        samples = {"ts_ns": rows[:, 0].copy(), "weight_ns": weight, "stack": rows[:, 6].copy()}
        for place, column in enumerate(("pid", "tid", "cpu"), start=1):
            samples[column] = rows[:, place].astype(np.uint16 if column == "cpu" else np.uint32)
        samples |= {
            "flags": np.zeros(len(rows), np.uint16),
            "event": np.full(len(rows), -1),
            "range_name": np.zeros(len(rows), np.int32),
        }
        meta: dict[str, Any] = {
            "period_ns": period_ns,
            "rate_hz": round(1e9 / period_ns) if period_ns else 0,
            "trace": {"event": name},
        }
        return imported(self._path, "perf", self._tables() | {"samples": samples}, [""], self._losses, meta)

    def _main_event(self, counts: Array) -> int:
        """The event whose samples say where time went, of several the most frequent."""

        def is_of_time(name: str) -> bool:
            return ":" not in name and name not in _NOT_OF_TIME  # tracepoints have a colon

        ranks = [(is_of_time(name), count) for name, count in zip(self._events, counts.tolist())]
        return ranks.index(max(ranks))

    def _tables(self) -> Tables:
        demangle = FunctionDemangler()
        frames = [(row, it.kind, demangle(it.name), it.file, 0, it.module) for it, row in self._frames.items()]
        events = from_rows("events", ())
        return {
            "events": events,
            "frames": from_rows("frames", frames),
            "stacks": from_rows("stacks", [(row, list(stack)) for stack, row in self._stacks.items()]),
            "processes": processes_table({pid: name for (pid, tid), name in self._names.items() if pid == tid}),
            "threads": threads_table(self._names),
        }


def _outer_modules(stack: list[Frame]) -> list[Frame]:
    """The same frames, leaf first; code that was inlined is in the module that it was inlined into."""
    frames = list(stack)
    for place in range(len(stack) - 1, -1, -1):
        if stack[place].module == INLINED:
            outer = frames[place + 1].module if place + 1 < len(stack) else ""
            frames[place] = stack[place]._replace(module=outer)
    return frames


def _weights(rows: Array, is_clock: bool) -> tuple[Array, int]:
    """The time that each sample stands for, and the usual one, ns.

    A clock's period is a time. Where there is none, it is the usual distance of two samples of one thread.
    """
    if is_clock and np.all(rows[:, 4] > 0):
        return rows[:, 4].copy(), int(np.median(rows[:, 4]))
    usual = usual_gap_ns(rows[:, 1], rows[:, 2], rows[:, 0])
    return np.full(len(rows), usual), usual
