"""Hits of probes that the user named become records: marks, and ranges where two probes are the ends of one.

The records go into the process's region, under numbers that its own never have: so they nest in its ranges. Their
strings stand in a stretch of the region's string log that no process fills.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from pillion._native import lib
from pillion_agent.probe_pairs import Role
from pillion_agent.spool import Spool, log_entry
from pillion_agent.usdt import Probe

# struct pln_probe_hit: tid, start_ns, pid, range_seq, range_name, reserved, weight_ns, then open_ns and args.
_HIT = struct.Struct("<4xIQ8xI4xII8x4xIQ8xQ12Q")
_RECORD = struct.Struct("<HHIQQIIIIHHIQII")  # struct pln_range
_FIRST_STRING = _FIRST_SEQ = 1 << 31
_LAST_STRING = (1 << 32) - 1
_MAX_KNOWN = 65_536  # strings of a region; then they are written again
_MAX_OPEN = 120  # of a thread, as of its ring: an end that never comes must not fill the memory
_MAX_DEPTH = 65_535
_HEX_FROM = 1 << 32  # above, an unsigned number is an address or a hash


@dataclass(frozen=True)
class Source:
    """What a cookie stands for."""

    probe: Probe
    role: Role


@dataclass(frozen=True)
class _Open:
    """A range that has begun."""

    pair: str | None
    name: str
    args: str
    value: int
    start_ns: int
    seq: int
    parent: int
    depth: int


class ProbeHits:
    """Of one session.

    Args:
        region: the number of the region that stands for a process, by pid.
    """

    def __init__(self, spool: Spool, region: Callable[[int], int]) -> None:
        self._spool = spool
        self._region = region
        self._sources: dict[int, Source] = {}
        self._open: dict[tuple[int, int], list[_Open]] = {}
        self._seq = _FIRST_SEQ
        self._strings: dict[int, dict[str, int]] = {}
        self._next_string: dict[int, int] = {}
        self._new_strings: dict[tuple[int, int], bytearray] = {}
        self._records: dict[tuple[int, int], bytearray] = {}
        self.lost_strings = 0

    def define(self, sources: dict[int, Source]) -> None:
        """What cookies stand for, before their first hit."""
        self._sources |= sources

    def add(self, data: bytes) -> None:
        """Takes struct pln_probe_hit, in the order in which each thread made them."""
        for tid, at_ns, pid, seq, cookie, depth, unread, open_ns, *values in _HIT.iter_unpack(data):
            source = self._sources.get(cookie)
            if not source:
                continue  # of a session that had this number before
            arguments = source.probe.arguments
            value = values[0] if arguments else 0
            text = _text(source.probe, values, unread)
            thread = (pid, tid)
            outer = self._outer(thread, seq, depth, open_ns)
            if source.role.pair is None:
                self._put_mark(thread, source.role.name, text, value, at_ns, *outer)
            elif source.role.end:
                self._end(thread, source.role, text, value, at_ns, outer)
            else:
                self._begin(thread, _Open(source.role.pair, source.role.name, text, value, at_ns, 0, *outer))

    def _outer(self, thread: tuple[int, int], seq: int, depth: int, open_ns: int) -> tuple[int, int]:
        """The range around a hit, and the hit's depth: of the process's own and ours the one that began last."""
        opened = self._open.get(thread)
        if opened and (not depth or opened[-1].start_ns >= open_ns):
            return opened[-1].seq, min(opened[-1].depth + 1, _MAX_DEPTH)
        return (seq, depth) if depth else (0, 0)

    def _begin(self, thread: tuple[int, int], new: _Open) -> None:
        opened = self._open.setdefault(thread, [])
        if len(opened) >= _MAX_OPEN:
            self._put_range(thread, opened.pop(0), new.start_ns, lib.PLN_UNFINISHED)
        self._seq = self._seq + 1 if self._seq < (1 << 32) - 1 else _FIRST_SEQ + 1
        opened.append(_Open(**{**new.__dict__, "seq": self._seq}))

    def _end(
        self, thread: tuple[int, int], role: Role, text: str, value: int, at_ns: int, outer: tuple[int, int]
    ) -> None:
        opened = self._open.get(thread, [])
        if not any(begun.pair == role.pair for begun in opened):
            # It began before we looked, or on another thread.
            self._put_mark(thread, role.name, text, value, at_ns, *outer)
            return
        while (begun := opened.pop()).pair != role.pair:
            self._put_range(thread, begun, at_ns, lib.PLN_UNFINISHED)  # its end was passed by, as by an exception
        self._put_range(thread, begun, at_ns, 0, text)
        if not opened:
            del self._open[thread]

    def close(self, at_ns: int, pid: int | None = None, tid: int | None = None) -> None:
        """The thread, the process or everything ends: so do their ranges."""
        for thread in list(self._open):
            if pid in (None, thread[0]) and tid in (None, thread[1]):
                for begun in self._open.pop(thread):
                    self._put_range(thread, begun, at_ns, lib.PLN_UNFINISHED)

    def flush(self) -> None:
        """Writes what was made since the last time, strings first."""
        for (region, pid), data in self._new_strings.items():
            offset = 8 * self._next_string[region] - len(data)
            self._spool.write(lib.PLN_BLOCK_STRINGS, bytes(data), len(data), pid, region, offset)
        for (region, pid), data in self._records.items():
            self._spool.write(lib.PLN_BLOCK_RECORDS, bytes(data), len(data), pid, region)
        self._new_strings.clear()
        self._records.clear()

    def _put_mark(
        self, thread: tuple[int, int], name: str, args: str, value: int, at_ns: int, parent: int, depth: int
    ) -> None:
        self._put(lib.PLN_MARK, 0, thread, (at_ns, at_ns), name, args, (0, parent, depth), value)

    def _put_range(self, thread: tuple[int, int], begun: _Open, end_ns: int, flags: int, end_args: str = "") -> None:
        args = " ".join(filter(None, (begun.args, end_args and f"end: {end_args}")))
        place = (begun.seq, begun.parent, begun.depth)
        self._put(lib.PLN_RANGE, flags, thread, (begun.start_ns, end_ns), begun.name, args, place, begun.value)

    def _put(
        self,
        kind: int,
        flags: int,
        thread: tuple[int, int],
        times_ns: tuple[int, int],
        name: str,
        args: str,
        place: tuple[int, int, int],
        value: int,
    ) -> None:
        pid, tid = thread
        region = self._region(pid)
        names = self._intern(region, pid, name), self._intern(region, pid, args)
        record = _RECORD.pack(kind, flags, tid, *times_ns, *names, *place, lib.PLN_SOURCE_USDT, tid, value, 0, 0)
        self._records.setdefault((region, pid), bytearray()).extend(record)

    def _intern(self, region: int, pid: int, text: str) -> int:
        if not text:
            return 0
        known = self._strings.setdefault(region, {})
        if text in known:
            return known[text]
        if len(known) >= _MAX_KNOWN:
            known.clear()
        string = self._next_string.setdefault(region, _FIRST_STRING)
        entry = log_entry(text.encode("utf-8", "replace"))
        if string + len(entry) // 8 > _LAST_STRING:
            self.lost_strings += 1
            return 0
        self._next_string[region] = string + len(entry) // 8
        self._new_strings.setdefault((region, pid), bytearray()).extend(entry)
        known[text] = string
        return string


def _text(probe: Probe, values: list[int], unread: int) -> str:
    """``arg1=5 arg2=-1 arg3=0x7f3c8a001000 arg4=?``"""
    words = []
    for place, argument in enumerate(probe.arguments):
        value = values[place]
        if unread >> place & 1:
            shown = "?"
        elif argument.signed:
            shown = str(value - (1 << 64) if value >> 63 else value)
        else:
            shown = hex(value) if value >= _HEX_FROM else str(value)
        words.append(f"arg{place + 1}={shown}")
    return " ".join(words)
