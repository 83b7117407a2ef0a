"""The eBPF map "targets": which processes are recorded, by which sessions."""

from __future__ import annotations

from typing import Any

from pillion._native import ffi, lib
from pillion_agent.errors import AgentError
from pillion_agent.maps import Map
from pillion_agent.process import Process

# As in probes/lifecycle.bpf.c.
_FIRST_WAKEUPS = 64


class Targets:
    """The agent writes entries, eBPF copies them at fork and removes them at exit."""

    def __init__(self, fd: int) -> None:
        self._map = Map(fd, "uint32_t", "struct pln_target")

    def add(self, pid: int, mask: int, follow: bool, start_ns: int) -> None:
        """Records a process for the sessions in mask; follow: its children, too.

        Raises:
            AgentError: the map is full.
        """
        target = self._map.get(pid) or ffi.new("struct pln_target *", {"start_ns": start_ns})
        target.sessions |= mask
        target.follow |= mask if follow else 0
        target.wakeups = _FIRST_WAKEUPS
        if not self._map.put(pid, target):
            raise AgentError("cannot record", "65,536 processes are recorded already", "record fewer")

    def sessions(self, pid: int) -> int:
        """Mask of the sessions that record a process."""
        target = self._map.get(pid)
        return int(target.sessions) if target else 0

    def set_python(self, pid: int, process: Process) -> None:
        target = self._map.get(pid)
        if target:
            target.python, target.tss_key, target.tss_offset = process.python_target()
            self._map.replace(pid, target)

    def set_tls_offset(self, pid: int, offset: int) -> None:
        target = self._map.get(pid)
        if target:
            target.tls_offset = offset
            self._map.replace(pid, target)

    def drop(self, pid: int, mask: int) -> bool:
        """Takes sessions off a process; True when nobody records it any more."""
        target = self._map.get(pid)
        if not target:
            return True
        target.sessions &= ~mask
        target.follow &= ~mask
        if target.sessions:
            self._map.replace(pid, target)
            return False
        self._map.delete(pid)
        return True

    def pids(self) -> list[int]:
        return list(self._map.keys())


class Settings:
    """What eBPF knows of all sessions together: the wait threshold, and who samples at which rate."""

    def __init__(self, settings_fd: int, rates_fd: int) -> None:
        self._settings = Map(settings_fd, "uint32_t", "struct pln_settings")
        self._rates = Map(rates_fd, "uint64_t", "uint64_t")

    def apply(self, sessions: list[Any]) -> None:
        threshold_ns = min((s.request.wait_threshold_ns for s in sessions), default=0)
        self._settings.put(0, ffi.new("struct pln_settings *", {"wait_threshold_ns": threshold_ns}))
        masks: dict[int, int] = {}
        for session in sessions:
            if session.request.rate_hz:
                masks[session.request.period_ns] = masks.get(session.request.period_ns, 0) | session.mask
        for period_ns in set(self._rates.keys()) - masks.keys():
            self._rates.delete(period_ns)
        for period_ns, mask in masks.items():
            self._rates.put(period_ns, ffi.new("uint64_t *", mask))


MAX_SESSIONS: int = lib.PLN_SESSIONS
