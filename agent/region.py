"""Regions of recorded processes: opened, drained into the sessions' spools, let go."""

from __future__ import annotations

import os
from typing import Any

from pillion._native import ffi, lib
from pillion_agent.spool import Spool
from pillion_probes.losses import REGION_LOSSES

_MAX_LOSSES = 65536


class RegionRefused(Exception):
    """A region that cannot be drained.

    Attributes:
        loss: the kind of loss that it is counted as.
    """

    def __init__(self, loss: str, reason: str) -> None:
        super().__init__(reason)
        self.loss = loss


class Region:
    """One region and where it is drained to.

    Args:
        fd: the memfd; stays the caller's.
        pid: host pid of the process.
        number: the agent's number for it.

    Raises:
        RegionRefused: with the reason.
    """

    def __init__(self, fd: int, pid: int, number: int) -> None:
        error = ffi.new("int *")
        self._reader = lib.pln_reader_open(fd, pid, number, error)
        if not self._reader:
            raise RegionRefused("region_refused", os.strerror(error[0]))
        self.pid = pid
        self.number = number
        self.inode = os.fstat(fd).st_ino
        self.draining = False
        self._sinks: dict[int, tuple[Spool, Any]] = {}

    @property
    def tls_offset(self) -> int:
        return int(lib.pln_reader_tls_offset(self._reader))

    @property
    def started_ns(self) -> int:
        return int(lib.pln_reader_started_ns(self._reader))

    @property
    def sessions(self) -> list[int]:
        return list(self._sinks)

    def join(self, spools: dict[int, Spool]) -> None:
        """Drains into these sessions' spools too, from now on; raises RegionRefused while another collector is alive.

        Sessions that join together get the same: of a new region everything since it was made.
        """
        if not self.draining:
            result = lib.pln_reader_begin(self._reader, lib.PLN_CONSUMER_AGENT)
            if result < 0:
                raise RegionRefused("region_busy", "another collector records this process")
            self.draining = True
        else:
            self.drain()
        for session, spool in spools.items():
            self._sinks[session] = (spool, ffi.new("struct pln_sink *", {"fd": spool.fd}))
            spool.put(type="region", region=self.number, pid=self.pid, start_ns=self.started_ns)

    def decline(self) -> None:
        """Switches off a recording that nobody consumes; raises RegionRefused where somebody does."""
        if lib.pln_reader_decline(self._reader) < 0:
            raise RegionRefused("region_busy", "another collector records this process")

    def announce_end(self) -> None:
        """The next leave() ends the recording: the job hands over what it holds back."""
        lib.pln_reader_announce_end(self._reader)

    @property
    def has_collector(self) -> bool:
        """CUPTI's collector is in the job, or was until it ended."""
        return bool(lib.pln_reader_has_collector(self._reader))

    @property
    def awaits_sources(self) -> bool:
        """The job has not handed over all."""
        return bool(lib.pln_reader_awaits_sources(self._reader))

    def leave(self, session: int) -> tuple[int, list[tuple[str, int, int]]]:
        """Drains for the last time and leaves the session; recording stops with the last one.

        Returns what the session got and what was lost: number of records, (kind, tid, count).
        """
        if len(self._sinks) == 1:
            self._end()
        else:
            self.drain()
        records, losses = self.records(session), self.losses()
        self._sinks.pop(session)
        return records, losses

    def drain(self) -> int:
        """Returns how full its fullest ring was, in percent."""
        self._each_sink(lib.pln_reader_drain)
        return int(lib.pln_reader_fill(self._reader))

    def _end(self) -> None:
        """Stops recording, drains, reports open ranges."""
        self._each_sink(lib.pln_reader_end)
        self.draining = False

    def _each_sink(self, call: Any) -> None:
        if not self.draining:
            return
        sinks = [sink for _, sink in self._sinks.values()]
        call(self._reader, ffi.new("struct pln_sink *[]", sinks), len(sinks))
        for spool, sink in self._sinks.values():
            if sink.error:
                spool.fail(sink.error)

    def records(self, session: int) -> int:
        return int(self._sinks[session][1].records) if session in self._sinks else 0

    def losses(self) -> list[tuple[str, int, int]]:
        """(kind, tid, count) since recording began."""
        losses = ffi.new("struct pln_loss[]", 64)
        total = lib.pln_reader_losses(self._reader, losses, 64)
        if total > 64:
            losses = ffi.new("struct pln_loss[]", min(total, _MAX_LOSSES))
            total = lib.pln_reader_losses(self._reader, losses, len(losses))
        found = (losses[i] for i in range(min(total, len(losses))))
        return [(REGION_LOSSES.get(loss.kind, f"kind_{loss.kind}"), loss.tid, loss.count) for loss in found]

    def close(self) -> None:
        lib.pln_reader_close(self._reader)
        self._reader = ffi.NULL
