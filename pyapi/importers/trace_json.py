"""Reads Chrome's JSON into columns: the native reader fed from a file, a piece at a time.

Nothing but the columns and each different text once is held, whatever the size of the file.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pillion._errors import CaptureError
from pillion._native import ffi, lib
from pillion._tables import Array
from pillion.importers.losses import Losses
from pillion.merge.spool import StructArray

_PIECE = 4 << 20
_ITEM_MAX = 256 << 20  # bytes of one event or member; the longest that anybody has shown has 3 MB
_MEMBER_MAX = 1 << 20
_LONG_MEMBERS = (b'"stackFrames"', b'"samples"')  # as long as it takes
_ROWS = 8192  # events of a block: in this size it stays in the processor's cache
_GZIP = b"\x1f\x8b"

Readable: TypeAlias = io.BufferedReader | gzip.GzipFile


def _event_dtype() -> np.dtype[np.void]:
    """The dtype of ``struct pln_trace_event``."""
    struct = ffi.typeof("struct pln_trace_event")
    numpy_types = {"uint8_t": "u1", "uint16_t": "u2", "uint32_t": "u4", "int32_t": "i4"}
    numpy_types |= {"unsigned char": "u1", "uint8_t[5]": "V5"}
    fields = struct.fields
    spec: Any = {
        "names": [name for name, _ in fields],
        "formats": [numpy_types.get(field.type.cname, "i8") for _, field in fields],
        "offsets": [field.offset for _, field in fields],
        "itemsize": ffi.sizeof(struct),
    }
    dtype: np.dtype[np.void] = np.dtype(spec)
    return dtype


EVENT_DTYPE = _event_dtype()
_WORDS = {name: field[1] // 8 for name, field in (EVENT_DTYPE.fields or {}).items()}


class TraceJson:
    """The events of a trace.

    Attributes:
        strings: names, shapes and attributes by their number; the first is "".
        labels: categories, stacks, ids, metadata by their number; the first is "".
        members: what the trace says about itself, by key.
        flows: how many flow events there were: arrows that its viewers draw.
        is_whole: the file ended where the trace did.
    """

    def __init__(self, path: Path, losses: Losses) -> None:
        """Read a file.

        Raises:
            CaptureError: nothing of it is a trace.
            OSError: it cannot be read.
        """
        self._path = path
        self._losses = losses
        self._sizes: list[int] = []
        self._parts: dict[str, list[Any]] = {name: [] for name in EVENT_DTYPE.names or ()}
        self._block: StructArray = np.zeros(_ROWS, EVENT_DTYPE)
        self._used = 0
        self.members: dict[str, Any] = {}
        self.is_whole = False
        trace = ffi.gc(lib.pln_trace_new(), lib.pln_trace_free)
        if trace == ffi.NULL:
            raise MemoryError
        with open(path, "rb") as file:
            is_gzip = file.read(2) == _GZIP
            file.seek(0)
            self._read(trace, gzip.GzipFile(fileobj=file) if is_gzip else file)
        self.strings = _texts(trace, lib.PLN_TRACE_STRINGS, losses)
        self.labels = _texts(trace, lib.PLN_TRACE_LABELS, losses)
        self.flows = int(lib.pln_trace_flows(trace))
        losses.add("counters", int(lib.pln_trace_counters(trace)), "events of phase C")

    def __len__(self) -> int:
        return sum(self._sizes)

    def column(self, name: str) -> Array:
        """A field of all events, in the order of the file."""
        values = np.empty(len(self), EVENT_DTYPE[name])
        begin = 0
        for size, part in zip(self._sizes, self._parts[name]):
            values[begin : begin + size] = part
            begin += size
        return values

    def _read(self, trace: Any, file: Readable) -> None:
        status, position = lib.PLN_TRACE_MORE, 0
        for window in _Windows(file, self._path, self._losses):
            while True:
                status = self._step(trace, window)
                position = window.position
                if status in (lib.PLN_TRACE_MORE, lib.PLN_TRACE_END, lib.PLN_TRACE_BAD):
                    break
            if status != lib.PLN_TRACE_MORE:
                break
        self._end_block()
        self.is_whole = status == lib.PLN_TRACE_END
        place = f"byte {position:,} of {self._path}"
        if not self._sizes and status != lib.PLN_TRACE_END:
            what = "is not valid" if status == lib.PLN_TRACE_BAD else "ends before the first event"
            raise CaptureError(f"cannot import {self._path}", f"its JSON {what}, at byte {position:,}")
        if not lib.pln_trace_has_events(trace):
            raise CaptureError(f"cannot import {self._path}", "its JSON is no trace: it has no array traceEvents")
        if status == lib.PLN_TRACE_BAD:
            self._losses.add("trace_corrupt", 1, f"no valid JSON from {place} on")
        elif status == lib.PLN_TRACE_MORE:
            self._losses.add("trace_truncated", 1, f"ends unfinished at {place}")

    def _step(self, trace: Any, window: _Window) -> int:
        step = ffi.new("struct pln_trace_step *")
        data = ffi.from_buffer("uint8_t[]", window.data)
        free = self._block[self._used :]
        room = ffi.cast("struct pln_trace_event *", ffi.from_buffer(free)) if len(free) else ffi.NULL
        status = int(lib.pln_trace_feed(trace, data, len(window.data), room, len(free), step))
        if status == lib.PLN_TRACE_MEMORY:
            raise MemoryError
        self._used += int(step.events)
        if status == lib.PLN_TRACE_FULL:
            self._end_block()
        if status == lib.PLN_TRACE_MEMBER:
            key = bytes(window.data[step.key_at : step.key_at + step.key_size])
            self._keep_member(key, window.data[step.value_at : step.value_at + step.value_size], window.position)
        window.consume(step.consumed)
        return status

    def _end_block(self) -> None:
        """Takes the block apart: a column that is the same all over, as most are, is kept as one value."""
        if not self._used:
            return
        self._sizes.append(self._used)
        rows = self._block[: self._used]
        events = ffi.cast("struct pln_trace_event *", ffi.from_buffer(rows))
        differing = int(lib.pln_trace_differing(events, len(rows)))
        for name, parts in self._parts.items():
            values = rows[name]
            parts.append(values.copy() if differing >> _WORDS[name] & 1 else values[0])
        self._used = 0

    def _keep_member(self, key: bytes, value: memoryview, position: int) -> None:
        try:
            if not 0 < len(value) <= (_ITEM_MAX if key in _LONG_MEMBERS else _MEMBER_MAX):
                raise ValueError
            self.members[json.loads(key)] = json.loads(bytes(value), strict=False)
        except (ValueError, RecursionError):
            place = f"member {key.decode('utf-8', 'replace')[:80]} behind byte {position:,} of {self._path}"
            self._losses.add("members", 1, place)


class _Window:
    """Bytes of the file that are not consumed yet.

    Attributes:
        data: these bytes.
        position: where in the file they begin.
    """

    def __init__(self, data: memoryview, position: int) -> None:
        self.data = data
        self.position = position

    def consume(self, size: int) -> None:
        self.data = self.data[size:]
        self.position += size


class _Windows:
    """The file as windows that follow each other: each begins with what the one before left over."""

    def __init__(self, file: Readable, path: Path, losses: Losses) -> None:
        self._file = file
        self._path = path
        self._losses = losses
        self._is_damaged = False

    def __iter__(self) -> Iterator[_Window]:
        buffer = bytearray(_PIECE)
        window = _Window(memoryview(b""), 0)
        while True:
            left = len(window.data)
            if left > len(buffer) // 2:
                larger = bytearray(min(len(buffer) * 2, _ITEM_MAX))
                if left >= len(larger):
                    self._losses.add("trace_corrupt", 1, f"{left:,} bytes without an end at byte {window.position:,}")
                    return
                larger[:left] = window.data
                buffer = larger
            else:
                buffer[:left] = bytes(window.data)  # they may overlap
            got = self._fill(memoryview(buffer)[left:], window.position + left)
            if not got:
                return
            begin = 3 if window.position == 0 and not left and buffer.startswith(b"\xef\xbb\xbf") else 0
            window = _Window(memoryview(buffer)[begin : left + got], window.position + begin)
            yield window

    def _fill(self, room: memoryview, position: int) -> int:
        """Reads until the room is full or nothing follows; what is before a damage counts."""
        got = 0
        while got < len(room) and not self._is_damaged:
            try:
                size = self._file.readinto1(room[got:])
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                place = f"byte {position + got:,} of what is unpacked of {self._path}: {error}"
                self._losses.add("gzip_damaged", 1, place)
                self._is_damaged = True
                break
            if not size:
                break
            got += size
        return got


def _texts(trace: Any, which: int, losses: Losses) -> list[str]:
    """The interned texts; bytes that are no UTF-8 become U+FFFD."""
    data, offsets = ffi.new("const uint8_t **"), ffi.new("const uint64_t **")
    count = int(lib.pln_trace_texts(trace, which, data, offsets))
    ends: list[int] = np.frombuffer(ffi.buffer(offsets[0], (count + 1) * 8), np.uint64).tolist()
    raw = bytes(ffi.buffer(data[0], ends[-1]))
    if raw.isascii():
        whole = raw.decode("ascii")
        return [whole[begin:end] for begin, end in pairwise(ends)]
    texts, bad = [], 0
    for begin, end in pairwise(ends):
        try:
            texts.append(raw[begin:end].decode())
        except UnicodeDecodeError:
            texts.append(raw[begin:end].decode("utf-8", "replace"))
            bad += 1
    losses.add("not_utf8", bad, "texts with bytes that are no UTF-8")
    return texts
