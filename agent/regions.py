"""All regions that are open, by process, and which session gets what from them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, suppress

from pillion_agent.process import Process
from pillion_agent.procfs import find_regions
from pillion_agent.region import Region, RegionRefused
from pillion_agent.session import USDT_REGION, Session, monotonic_ns
from pillion_agent.targets import Targets

# A job that is stopped, or lies, hands over nothing.
_HAND_OVER_NS = 2_000_000_000
_HAND_OVER_PAUSE_S = 0.001
_MAX_REGIONS = 8  # of a process at a time, whatever it announces


class Regions:
    """A process has one region, two for a moment around an exec."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._by_pid: dict[int, list[Region]] = {}
        self._numbers = 0

    def __iter__(self) -> Iterator[Region]:
        for regions in list(self._by_pid.values()):
            yield from regions

    def pids(self) -> set[int]:
        return set(self._by_pid)

    def known(self, pid: int) -> bool:
        return pid in self._by_pid

    def look_for_collectors(self, process: Process) -> None:
        """Whether our library, and in it CUPTI's collector, is in a process whose regions are still open."""
        regions = self._by_pid.get(process.info.pid, ())
        process.torch.is_collected |= bool(regions)
        process.cuda.is_collected |= any(region.has_collector for region in regions)

    def number(self, pid: int, session: Session) -> int:
        """The region that a session's records of a process belong to, where they do not come from a region."""
        regions = self._by_pid.get(pid, ()) if session.request.transport == "rings" else ()
        return max((region.number for region in regions), default=USDT_REGION | pid)

    def find(self, pid: int, sessions: list[Session]) -> None:
        """Opens the regions that a process has already, for these sessions."""
        try:
            paths = find_regions(pid)
        except OSError:
            return  # it has ended
        for path in paths:
            try:
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                continue  # closed while we looked
            try:
                self.open(pid, fd, sessions)
            finally:
                os.close(fd)

    def open(self, pid: int, fd: int, sessions: list[Session]) -> None:
        """Opens a region and drains it into the sessions' spools; what cannot be drained is a loss of theirs."""
        inode = os.fstat(fd).st_ino
        of_process = self._by_pid.get(pid, [])
        region = next((known for known in of_process if known.inode == inode), None)
        try:
            if not region and len(of_process) >= _MAX_REGIONS:
                raise RegionRefused("region_refused", "a process has one region")
            if not region:
                region = Region(fd, pid, self._numbers + 1)
                self._numbers += 1
                self._by_pid.setdefault(pid, []).append(region)
                self._targets.set_tls_offset(pid, region.tls_offset)
            ringing = (session for session in sessions if session.request.transport == "rings")
            joining = {session.bit: session.spool for session in ringing if session.bit not in region.sessions}
            if joining:
                region.join(joining)
        except RegionRefused as refusal:
            for session in sessions:
                session.lose(refusal.loss, pid, 0, 1)

    def decline(self, pid: int, fd: int) -> None:
        """Tells a process that records since it announced itself that nobody wants it."""
        with suppress(RegionRefused), closing(Region(fd, pid, 0)) as region:
            region.decline()

    def drain(self) -> int:
        """Drains all; returns how full the fullest ring was, in percent."""
        return max((region.drain() for region in self), default=0)

    def announce_end(self, session: Session) -> None:
        """Has jobs that nobody else records hand over what they hold back, and drains it."""
        ending = [region for region in self if region.sessions == [session.bit]]
        for region in ending:
            region.announce_end()
        deadline_ns = monotonic_ns() + _HAND_OVER_NS
        while any(region.awaits_sources for region in ending) and monotonic_ns() < deadline_ns:
            self.drain()
            time.sleep(_HAND_OVER_PAUSE_S)

    def leave(self, session: Session) -> None:
        """Ends a session's part in all regions."""
        for region in self:
            _leave(session, region)

    def close(self, pid: int, sessions: dict[int, Session]) -> None:
        """Nobody writes into the regions of this process any more."""
        for region in self._by_pid.pop(pid, []):
            for bit in region.sessions:
                _leave(sessions[bit], region)
            region.close()

    def records(self, session: Session) -> int:
        return sum(region.records(session.bit) for region in self)

    def lost(self, session: Session) -> int:
        mine = (region for region in self if session.bit in region.sessions)
        return sum(count for region in mine for _, _, count in region.losses())


def _leave(session: Session, region: Region) -> None:
    if session.bit not in region.sessions:
        return
    if region.awaits_sources:
        session.lose("held_back", region.pid, 0, 1)
    records, losses = region.leave(session.bit)
    session.ring_records += records
    for kind, tid, count in losses:
        session.lose(kind, region.pid, tid, count)
