"""Where the eBPF programs for USDT probes are attached at the moment, and for which sessions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread

from pillion._native import ffi
from pillion_agent.maps import Map
from pillion_agent.probe_files import Identity, ProbeFile
from pillion_agent.programs import Programs
from pillion_agent.uprobe import Place
from pillion_agent.usdt import Probe

MAX_SITES = 16384  # as the map "probe_sites" has room for


_Key = tuple[str, Identity, int, int]  # program, file, location, process


class NoRoom(Exception):
    """The map is full."""


@dataclass
class _Link:
    """One attachment of several sites; closed with the last of them."""

    descriptors: list[int] = field(default_factory=list)
    users: int = 0


@dataclass
class _Site:
    """One location that is attached to one program."""

    cookie: int
    link: _Link
    sessions: int
    round: int


class ProbeSites:
    """A location is attached once for all sessions; its entry in the map says which."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._map = Map(programs.map_fd("probe_sites"), "uint32_t", "struct pln_probe_site")
        self._sites: dict[_Key, tuple[_Site, Probe]] = {}
        self._closing: SimpleQueue[int] = SimpleQueue()
        Thread(target=self._close_later, name="detach", daemon=True).start()
        self._cookies = 0
        self._round = 0

    def attach(
        self, mask: int, file: ProbeFile, program: str, probes: Sequence[Probe], pid: int = 0
    ) -> dict[int, Probe]:
        """Attaches what is not, and adds a session to the rest.

        Args:
            pid: only in this process; 0 for every one that maps the file, now or later.

        Returns:
            Cookie to probe.

        Raises:
            OSError: the kernel refuses; nothing has changed.
            NoRoom: the same.
        """
        keys: dict[_Key, Probe] = {(program, file.identity, probe.location, pid): probe for probe in probes}
        fresh = {key: probe for key, probe in keys.items() if key not in self._sites}
        if len(self._sites) + len(fresh) > MAX_SITES:
            raise NoRoom
        self._round += 1
        if fresh:
            self._attach(mask, file, program, fresh, pid)
        found = {}
        for key, probe in keys.items():
            site, _ = self._sites[key]
            if not site.sessions & mask:
                site.sessions |= mask
                site.round = self._round
                self._write(site, probe)
            found[site.cookie] = probe
        return found

    def _attach(self, mask: int, file: ProbeFile, program: str, fresh: dict[_Key, Probe], pid: int) -> None:
        link = _Link(users=len(fresh))
        sites = {}
        for key, probe in fresh.items():
            self._cookies += 1
            sites[key] = _Site(self._cookies, link, mask, self._round), probe
            self._write(*sites[key])  # before the first hit
        places = [Place(probe.location, probe.semaphore, site.cookie) for site, probe in sites.values()]
        try:
            link.descriptors = self._programs.attach_probes(program, file.fd, places, pid)
        except BaseException:
            for site, _ in sites.values():
                self._map.delete(site.cookie)
            raise
        self._sites |= sites

    def _write(self, site: _Site, probe: Probe) -> None:
        value = ffi.new("struct pln_probe_site *", {"sessions": site.sessions, "round": site.round})
        value.arg_count = len(probe.arguments)
        for place, argument in enumerate(probe.arguments):
            argument.fill(value.args[place])
        self._map.put(site.cookie, value)

    def leave(self, mask: int) -> None:
        """Takes sessions off; what nobody wants any more is detached."""
        for key, (site, probe) in list(self._sites.items()):
            if not site.sessions & mask:
                continue
            site.sessions &= ~mask
            if site.sessions:
                self._write(site, probe)
                continue
            self._drop(key)

    def leave_process(self, pid: int) -> None:
        """What was attached in one process alone goes with it."""
        for key in [key for key in self._sites if key[3] == pid]:
            self._drop(key)

    def _drop(self, key: _Key) -> None:
        site, _ = self._sites.pop(key)
        site.link.users -= 1
        self._map.delete(site.cookie)
        for descriptor in site.link.descriptors if not site.link.users else ():
            if key[3]:
                self._closing.put(descriptor)
            else:
                os.close(descriptor)

    def _close_later(self) -> None:
        """Detaching takes 40 ms and more: a user's processes that come and go must not keep the others waiting."""
        while True:
            os.close(self._closing.get())

    def __len__(self) -> int:
        return len(self._sites)
