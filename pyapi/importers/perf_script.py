"""``perf script``'s text: samples with their stacks."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from pillion._capture import Capture
from pillion._demangle import demangled
from pillion._errors import CaptureError
from pillion._tables import Array, Tables, from_rows
from pillion.importers.assembly import imported
from pillion.importers.losses import Losses
from pillion.importers.sample_gaps import usual_gap_ns
from pillion.importers.threads import processes_table, threads_table

# comm pid/tid [cpu] seconds.micros: period event: — without a slash the number is the thread's.
_HEADER = re.compile(
    r"(?P<comm>\S.*?) (?P<pid>\d{1,10})(?:/(?P<tid>\d{1,10}))? (?:\[(?P<cpu>\d{1,9})\] )?(?:\S{1,8} )?"
    r"(?P<seconds>\d{1,9})\.(?P<fraction>\d{1,9}): (?:(?P<period>\d{1,18}) )?(?P<event>[^ :]\S*?):(?: (?P<rest>.*))?"
)
_HEADER_MAX = 4096
_LINE_MAX = 1 << 20
_KERNEL_FROM = 0xFFFF_8000_0000_0000
_CLOCKS = ("cpu-clock", "task-clock")
_U16_MAX, _U32_MAX = 2**16 - 1, 2**32 - 1
_UNKNOWN = "[unknown]"
_ADDRESS = re.compile(r"[0-9a-f]{1,16}")


def import_perf_script(path: Path) -> Capture:
    """Read the text, gzipped or not.

    Raises:
        CaptureError: there is no sample in it.
        OSError: it cannot be read.
    """
    reader = _Reader(path)
    reader.read()
    return reader.capture()


def sample_header(line: str) -> re.Match[str] | None:
    """The parts of a sample's first line; None for any other line."""
    if len(line) > _HEADER_MAX:
        return None
    return _HEADER.fullmatch(" ".join(line.split()))


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._losses = Losses()
        self._samples: list[tuple[int, int, int, int, int, int, int]] = []  # ts, pid, tid, cpu, period, event, stack
        self._events: dict[str, int] = {}
        self._frames: dict[tuple[str, str, str, str], int] = {}
        self._stacks: dict[tuple[int, ...], int] = {(): 0}
        self._names: dict[tuple[int, int], str] = {}
        self._header: re.Match[str] | None = None
        self._stack: list[int] = []

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
        header = sample_header(text)
        if header:
            self._end_sample()
            self._header = header
            self._add_frame(header["rest"] or "")  # without call chains the only one is here
        elif not text:
            self._end_sample()
        elif not (self._header and line[:1].isspace() and self._add_frame(text)) and not text.startswith("#"):
            self._losses.add("bad_lines", 1, f"line {number:,} of {self._path}")

    def _add_frame(self, text: str) -> bool:
        """``address symbol+0xoffset (module)``; whether it is that."""
        address, _, rest = text.partition(" ")
        symbol, paren, module = rest.removesuffix(")").removesuffix(" (deleted)").rpartition(" (")
        if not paren or not rest.endswith(")") or not _ADDRESS.fullmatch(address):
            return False
        name, plus, offset = symbol.rpartition("+0x")
        name = name.strip() if plus and _ADDRESS.fullmatch(offset) else symbol.strip()
        self._stack.append(self._frame(int(address, 16), name, module))
        return True

    def _frame(self, address: int, name: str, module: str) -> int:
        kind, file = "native", ""
        if name.startswith("py::"):  # CPython's names in perf maps: py::function:file
            name, _, file = name[4:].partition(":")
            kind, module = "python", ""
        elif address >= _KERNEL_FROM or module.startswith(("[kernel", "[guest.kernel")) or module.endswith(".ko"):
            kind = "kernel"
        module = "" if module == _UNKNOWN else module
        return self._frames.setdefault((kind, name, file, module), len(self._frames))

    def _end_sample(self) -> None:
        header, self._header = self._header, None
        if not header:
            return
        stack, self._stack = tuple(self._stack), []
        pid = min(int(header["pid"]), _U32_MAX)
        tid = min(int(header["tid"]), _U32_MAX) if header["tid"] else pid
        ts_ns = int(header["seconds"]) * 10**9 + int(header["fraction"].ljust(9, "0"))
        event = self._events.setdefault(header["event"].partition(":")[0], len(self._events))
        row = self._stacks.setdefault(stack, len(self._stacks))
        cpu = min(int(header["cpu"] or 0), _U16_MAX)
        self._samples.append((ts_ns, pid, tid, cpu, int(header["period"] or 0), event, row))
        self._names[pid, tid] = header["comm"]

    def capture(self) -> Capture:
        """What was read.

        Raises:
            CaptureError: nothing was.
        """
        if not self._samples:
            raise CaptureError(f"cannot import {self._path}", "there is no sample of `perf script` in it")
        rows = np.array(self._samples, np.int64)
        event = np.bincount(rows[:, 5]).argmax()
        self._losses.add("other_events", int(np.count_nonzero(rows[:, 5] != event)), "samples of rarer events")
        rows = rows[rows[:, 5] == event]
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        name = list(self._events)[event]
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

    def _tables(self) -> Tables:
        frames = [
            (row, kind, demangled(name), file, 0, module) for (kind, name, file, module), row in self._frames.items()
        ]
        events = from_rows("events", ())
        return {
            "events": events,
            "frames": from_rows("frames", frames),
            "stacks": from_rows("stacks", [(row, list(stack)) for stack, row in self._stacks.items()]),
            "processes": processes_table({pid: name for (pid, tid), name in self._names.items() if pid == tid}),
            "threads": threads_table(self._names),
        }


def _weights(rows: Array, is_clock: bool) -> tuple[Array, int]:
    """The time that each sample stands for, and the usual one, ns.

    A clock's period is a time. Where there is none, it is the usual distance of two samples of one thread.
    """
    if is_clock and np.all(rows[:, 4] > 0):
        return rows[:, 4].copy(), int(np.median(rows[:, 4]))
    usual = usual_gap_ns(rows[:, 1], rows[:, 2], rows[:, 0])
    return np.full(len(rows), usual), usual
