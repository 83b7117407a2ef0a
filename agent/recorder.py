"""The heart of the agent: eBPF events, regions and processes on one side, sessions on the other."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psutil

from pillion._native import ffi, lib
from pillion_agent.counts import Counts
from pillion_agent.errors import AgentError
from pillion_agent.ownership import NotAllowed, allow
from pillion_agent.probe_targets import ProbeTargets
from pillion_agent.process import Process, executed
from pillion_agent.procfs import process_of, read_process
from pillion_agent.programs import EVENT_PAGES, Attachments, Programs
from pillion_agent.regions import Regions
from pillion_agent.session import Request, Session, monotonic_ns
from pillion_agent.spool import Spool
from pillion_agent.symbols import Symbolizer
from pillion_agent.targets import MAX_SESSIONS, Settings, Targets
from pillion_agent.threads import Threads

# A process may have ended before we read the datagram that carries its region.
_ENDED_NS = 1_000_000_000
_FILLING_PERCENT = 25


class Recorder:
    """Runs sessions. Not thread-safe: the server's loop owns it.

    Attributes:
        rings_fill: the last drain found a ring that wants the next one soon.
    """

    def __init__(self, programs: Programs) -> None:
        self.sessions: dict[int, Session] = {}
        self.processes: dict[int, Process] = {}
        self.rings_fill = False
        self.events_fd = programs.map_fd("events")
        self._attachments = Attachments(programs)
        self._targets = Targets(programs.map_fd("targets"))
        self._settings = Settings(programs.map_fd("settings"), programs.map_fd("rates"))
        self._threads = Threads(programs.map_fd("threads"), programs.map_fd("wait_stacks"))
        self._regions = Regions(self._targets)
        self._probes = ProbeTargets(programs, self._regions)
        self._counts = Counts(programs)
        self._symbolizer = Symbolizer()
        self._boot_offset_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - monotonic_ns()
        error = ffi.new("int *")
        self._ring = lib.pln_kernel_ring_open(self.events_fd, EVENT_PAGES * 4096, error)
        if not self._ring:
            reason = os.strerror(error[0])
            raise AgentError("cannot read the eBPF ring buffer", reason, "run `pillion doctor`", code=3)
        self._native_sessions = ffi.new("struct pln_session *[]", MAX_SESSIONS)
        self._rest = ffi.new("struct pln_bytes *")
        self._ended: dict[int, tuple[int, int]] = {}  # pid to (sessions, when), for _ENDED_NS

    # ---- sessions ----

    def start(self, request: Request, spool_fd: int, uid: int, probe_files: Sequence[int] = ()) -> Session:
        """Begins a session; everything is attached on return. The descriptors stay the caller's.

        Raises:
            AgentError: the request cannot be met; nothing is left attached for it.
        """
        free = [bit for bit in range(MAX_SESSIONS) if bit not in self.sessions]
        if not free:
            raise AgentError("cannot record", f"{MAX_SESSIONS} sessions run already", "wait for one to end")
        self.drain()
        session = Session(free[0], request, Spool(os.dup(spool_fd)), uid)
        self.sessions[session.bit] = session
        self._native_sessions[session.bit] = session.native
        try:
            session.counts_base = self._counts.now()
            self._threads.set_base(session)
            self._apply()
            self._probes.begin(session, probe_files)
            self._add_targets(session)
            self._probes.look_all(session)
        except BaseException:
            self._detach(session)
            session.close()
            raise
        session.put_meta()
        session.spool.flush()
        return session

    def _apply(self) -> None:
        """Attaches and sets what the running sessions need together."""
        running = list(self.sessions.values())
        self._settings.apply(running)
        self._attachments.apply(running)

    def _add_targets(self, session: Session) -> None:
        request = session.request
        for pid in psutil.pids() if request.all else request.pids:
            try:
                owner = pid if request.all else process_of(pid)
                if owner != pid:
                    cause = f"it is a thread of process {owner}"
                    raise AgentError(f"cannot record process {pid}", cause, f"record process {owner}")
                self._add_target(session, pid, follow=request.follow or request.all)
            except OSError as error:
                if not request.all:
                    raise AgentError(f"cannot record process {pid}", "no such process", "see `ps`") from error
        if request.follow and not request.all:
            self._add_children(session)
        if not session.alive:
            raise AgentError("cannot record", "no process is left to record", "see `ps`")

    def _add_children(self, session: Session) -> None:
        """Children that were there before us. The parents are targets by now, so newer ones come with their fork."""
        for pid in session.request.pids:
            with suppress(psutil.Error):
                for child in psutil.Process(pid).children(recursive=True):
                    with suppress(OSError, NotAllowed):
                        self._add_target(session, child.pid, follow=True)

    def _add_target(self, session: Session, pid: int, follow: bool) -> None:
        # First a target, then the questions: whatever the process becomes after the answers is told by an event.
        self._targets.add(pid, session.mask, follow, session.start_ns)
        try:
            allow(session.uid, pid)
            info = read_process(pid, self._boot_offset_ns)
            if info.exiting:
                raise ProcessLookupError
        except BaseException:
            if self._targets.drop(pid, session.mask):
                self._forget(pid)
            raise
        process = self.processes.setdefault(pid, Process(info, monotonic_ns()))
        session.alive.add(pid)
        self._look_for_python(process)
        process.look_for_libraries()
        process.look_at_environment(None)
        session.put_process(process)
        self._regions.find(pid, [session])

    def finish(self, session: Session) -> None:
        """Ends a session: last drain, last words, detach. Its spool is whole then, and still open."""
        for pid in session.alive & self.processes.keys():
            self.processes[pid].look_for_libraries()
            self._regions.look_for_collectors(self.processes[pid])
        self._regions.announce_end(session)
        self.drain()
        session.end_ns = monotonic_ns()
        self._threads.report(session, self._targets)
        self._regions.leave(session)
        session.flush(self.processes, self._symbolizer)
        self._probes.report(session)
        for pid in session.alive:
            if pid in self.processes:
                session.put_process(self.processes[pid])
        session.put_losses(self._counts.now())
        session.spool.put(type="end", end_ns=session.end_ns, reason=session.reason, cost=session.cost())
        session.spool.flush()
        self._detach(session)

    def abandon(self, session: Session) -> None:
        """Ends a session whose client has gone, as far as it goes."""
        self.finish(session)
        session.close()

    def _detach(self, session: Session) -> None:
        self._probes.leave(session)
        self._regions.leave(session)
        self.sessions.pop(session.bit, None)
        self._native_sessions[session.bit] = ffi.NULL
        self._apply()
        for pid in self._targets.pids():
            if self._targets.drop(pid, session.mask):
                self._forget(pid)
        if not self.sessions:
            for pid in self._regions.pids() | self.processes.keys():
                self._forget(pid)
            self._threads.forget_all()

    def _forget(self, pid: int) -> None:
        self._regions.close(pid, self.sessions)
        process = self.processes.pop(pid, None)
        if process:
            process.close()

    # ---- draining ----

    def drain(self) -> None:
        """Moves everything that is waiting to the spools."""
        self._drain_kernel()
        now = monotonic_ns()
        for pid, process in self.processes.items():
            self._look_for_python(process, now)
            if process.scan_is_due(now):
                process.look_for_libraries()
                if not self._regions.known(pid):
                    self._regions.find(pid, [session for session in self.sessions.values() if pid in session.alive])
        self._probes.look_again(self.sessions.values(), now)
        self._flush()
        self.rings_fill = self._regions.drain() >= _FILLING_PERCENT
        for pid, (_, ended_ns) in list(self._ended.items()):
            if now - ended_ns > _ENDED_NS:
                del self._ended[pid]

    def _drain_kernel(self) -> None:
        lib.pln_kernel_ring_drain(self._ring, self._native_sessions, self._rest)
        data = bytes(ffi.buffer(self._rest.data, self._rest.used)) if self._rest.used else b""
        self._rest.used = 0
        event = ffi.new("struct pln_event *")
        at = 0
        while at < len(data):
            length = int.from_bytes(data[at : at + 4], "little")
            ffi.memmove(event, data[at + 8 : at + 8 + length], length)
            at += 8 + length
            _HANDLERS[event.sample.kind](self, event)

    def _flush(self) -> None:
        for session in self.sessions.values():
            session.flush(self.processes, self._symbolizer)

    def _sessions_in(self, mask: int) -> list[Session]:
        return [session for session in self.sessions.values() if mask & session.mask]

    def _on_fork(self, event: Any) -> None:
        pid, start_ns = event.sample.pid, event.sample.start_ns
        parent = self.processes.get(event.sample.waker_pid)
        try:
            info = read_process(pid, self._boot_offset_ns, parent.info.cmdline if parent else "")
        except OSError:
            if not parent:
                return  # its events still count, under its pid
            # Gone already, and it was a copy of its parent.
            info = replace(parent.info, pid=pid, ppid=parent.info.pid, start_ns=start_ns)
        process = parent.fork(info, start_ns) if parent else Process(info, start_ns)
        self.processes[pid] = process
        self._look_for_python(process)
        for session in self._sessions_in(event.sessions):
            session.alive.add(pid)
            session.put_process(process)
        self._probes.fork(event.sample.waker_pid, pid, self._sessions_in(event.sessions))

    def _on_exec(self, event: Any) -> None:
        pid = event.sample.pid
        before = self.processes.get(pid)
        self._end_program(pid, event.sample.start_ns)
        info = executed(event, before.info if before else None, self._boot_offset_ns)
        if not info:
            return
        process = self.processes[pid] = Process(info, event.sample.start_ns)
        process.look_at_environment(before)
        self._look_for_python(process)
        for session in self._sessions_in(event.sessions):
            try:
                allow(session.uid, pid)
            except (NotAllowed, OSError):  # it has become another user's, or gone
                self._targets.drop(pid, session.mask)
                session.alive.discard(pid)
                continue
            session.alive.add(pid)
            session.put_process(process)
        self._probes.look(pid, self._sessions_in(event.sessions), new_program=True)

    def _on_exit(self, event: Any) -> None:
        pid = event.sample.pid
        self._end_program(pid, event.sample.start_ns)
        for session in self._sessions_in(event.sessions):
            session.alive.discard(pid)
            if pid in self.processes:
                session.put_process(self.processes[pid])
        self.processes.pop(pid, None)
        self._probes.forget(pid)
        self._ended[pid] = event.sessions, monotonic_ns()

    def _end_program(self, pid: int, end_ns: int) -> None:
        """The program in this process has ended: nothing more of its memory can be read or will be written."""
        self._flush()
        for session in self.sessions.values():
            session.close_probe_ranges(end_ns, pid)
        process = self.processes.get(pid)
        if process:
            self._regions.look_for_collectors(process)
            process.end_ns = end_ns
            process.close()
        self._regions.close(pid, self.sessions)

    def _on_thread_exit(self, event: Any) -> None:
        thread_time = ffi.cast("struct pln_thread_time *", event.frames)
        for session in self._sessions_in(event.sessions):
            session.close_probe_ranges(event.sample.start_ns, event.sample.pid, event.sample.tid)
            session.put_thread(event.sample.tid, thread_time, event.sample.start_ns)
            session.thread_base.pop(event.sample.tid, None)

    def _on_name(self, event: Any) -> None:
        """The text of a record's string, from the USDT transport: an entry of a string log that we do not see."""
        text = bytes(ffi.buffer(event.frames))[: event.sample.weight_ns]
        for session in self._sessions_in(event.sessions):
            session.put_usdt_string(event.sample.pid, event.sample.range_name, text)

    # ---- processes and their regions ----

    def _look_for_python(self, process: Process, now_ns: int | None = None) -> None:
        if process.look_for_python(now_ns or monotonic_ns()):
            self._targets.set_python(process.info.pid, process)
            for session in self._sessions_in(self._targets.sessions(process.info.pid)):
                session.put_process(process)

    def announce(self, pid: int, fd: int | None) -> None:
        """A process has made its region and sent it, or says that it cannot. The descriptor stays the caller's."""
        self._drain_kernel()  # the fork that made the process comes before its region
        mask, _ = self._ended.get(pid, (0, 0))
        wanted = [s for s in self.sessions.values() if pid in s.alive or s.mask & mask]
        if fd is None:
            for session in wanted:
                session.lose("no_region", pid, 0, 1)
            return
        if not wanted:
            self._regions.decline(pid, fd)
            return
        self._regions.open(pid, fd, wanted)
        if pid in self.processes:
            self.processes[pid].look_for_libraries()  # it may end before its first stacks come
        self._probes.look(pid, wanted)
        if pid in self._ended:
            self._regions.close(pid, self.sessions)

    # ---- counts ----

    def ranges(self, session: Session) -> int:
        """Records from rings and probes that this session has got."""
        return session.ring_records + self._regions.records(session) + int(session.native.range_count)

    def lost(self, session: Session) -> int:
        """Events of all kinds that this session has lost so far."""
        kernel = sum(self._counts.now()) - sum(session.counts_base)
        return kernel + self._regions.lost(session) + sum(session.lost.values())


_HANDLERS = {
    lib.PLN_EVENT_FORK: Recorder._on_fork,
    lib.PLN_EVENT_EXEC: Recorder._on_exec,
    lib.PLN_EVENT_EXIT: Recorder._on_exit,
    lib.PLN_EVENT_THREAD_EXIT: Recorder._on_thread_exit,
    lib.PLN_EVENT_NAME: Recorder._on_name,
}
