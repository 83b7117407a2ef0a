"""The heart of the agent: eBPF events, regions and processes on one side, sessions on the other."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

import psutil

from pillion._native import ffi, lib
from pillion_agent.errors import AgentError
from pillion_agent.maps import Map, sum_per_cpu
from pillion_agent.process import Process
from pillion_agent.procfs import find_regions, read_process, thread_ids
from pillion_agent.programs import EVENT_PAGES, Attachments, Programs
from pillion_agent.region import Region, RegionRefused
from pillion_agent.session import USDT_REGION, Request, Session, ThreadTimes, monotonic_ns
from pillion_agent.spool import Spool
from pillion_agent.symbols import Symbolizer

# As in probes/lifecycle.bpf.c.
_FIRST_WAKEUPS = 64


class Recorder:
    """Runs sessions. Not thread-safe: the server's loop owns it."""

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        self.sessions: dict[int, Session] = {}
        self.processes: dict[int, Process] = {}
        self.regions: dict[int, list[Region]] = {}
        self._attachments = Attachments(programs)
        self._targets = Map(programs.map_fd("targets"), "uint32_t", "struct pln_target")
        self._threads = Map(programs.map_fd("threads"), "uint32_t", "struct pln_thread")
        self._rates = Map(programs.map_fd("rates"), "uint64_t", "uint64_t")
        self._settings = Map(programs.map_fd("settings"), "uint32_t", "struct pln_settings")
        self.events_fd = programs.map_fd("events")
        error = ffi.new("int *")
        self._ring = lib.pln_kernel_ring_open(self.events_fd, EVENT_PAGES * 4096, error)
        if not self._ring:
            raise AgentError("cannot read the eBPF ring buffer", os.strerror(error[0]), "run `pillion doctor`", code=3)
        self._native_sessions = ffi.new("struct pln_session *[]", lib.PLN_SESSIONS)
        self._rest = ffi.new("struct pln_bytes *")
        self._symbolizer = Symbolizer()
        self._region_numbers = 0
        self._possible_cpus = _possible_cpus()
        self._boot_offset_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - monotonic_ns()

    # ---- sessions ----

    def start(self, request: Request, spool_fd: int, uid: int) -> Session:
        """Begins a session; everything is attached on return.

        Raises:
            AgentError: the request cannot be met; nothing is left attached for it.
        """
        free = [bit for bit in range(lib.PLN_SESSIONS) if bit not in self.sessions]
        if not free:
            raise AgentError("cannot record", f"{lib.PLN_SESSIONS} sessions run already", "wait for one to end")
        self.drain()
        session = Session(free[0], request, Spool(spool_fd), uid)
        self.sessions[session.bit] = session
        self._native_sessions[session.bit] = session.native
        try:
            self._attach(session)
            self._add_targets(session)
        except BaseException:
            self._detach(session)
            raise
        session.put_meta()
        session.spool.flush()
        return session

    def _attach(self, session: Session) -> None:
        session.counts_base = self._counts()
        for tid in self._threads.keys():
            thread = self._threads.get(tid)
            if thread:
                session.thread_base[tid] = ThreadTimes.of(thread.time, session.start_ns)
        self._apply_settings()
        self._attachments.apply(list(self.sessions.values()))
        for period_ns, sessions in _rate_masks(self.sessions.values()).items():
            self._rates.put(period_ns, ffi.new("uint64_t *", sessions))

    def _apply_settings(self) -> None:
        """What eBPF needs to know of all sessions together."""
        running = list(self.sessions.values())
        threshold = min((s.request.wait_threshold_ns for s in running), default=0)
        usdt = sum(s.mask for s in running if s.request.transport == "usdt")
        self._settings.put(0, ffi.new("struct pln_settings *", {"wait_threshold_ns": threshold, "usdt_sessions": usdt}))

    def _add_targets(self, session: Session) -> None:
        request = session.request
        for pid in psutil.pids() if request.all else request.pids:
            try:
                self._add_target(session, pid, follow=request.follow or request.all)
            except (OSError, psutil.Error) as error:
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
                    with suppress(OSError):
                        self._add_target(session, child.pid, follow=True)

    def _add_target(self, session: Session, pid: int, follow: bool) -> None:
        process = self._known(pid)
        allow(session.uid, pid)
        target = self._targets.get(pid) or ffi.new("struct pln_target *", {"start_ns": session.start_ns})
        target.sessions |= session.mask
        if follow:
            target.follow |= session.mask
        target.wakeups = _FIRST_WAKEUPS
        if not self._targets.put(pid, target):
            raise AgentError("cannot record", "65,536 processes are recorded already", "record fewer")
        session.alive.add(pid)
        self._look_for_python(process)
        session.put_process(process)
        for region in self._find_regions(pid):
            self._join_region(session, region)

    def _known(self, pid: int) -> Process:
        """Raises OSError when there is no such process."""
        process = self.processes.get(pid)
        if not process or process.end_ns:
            process = self.processes[pid] = Process(read_process(pid, self._boot_offset_ns), monotonic_ns())
        return process

    def finish(self, session: Session) -> None:
        """Ends a session: last drain, last words, detach. Its spool is whole then, and still open."""
        self.drain()
        session.end_ns = monotonic_ns()
        self._put_threads(session)
        for regions in list(self.regions.values()):
            for region in regions:
                self._leave_region(session, region)
        session.flush(self.processes, self._symbolizer)
        for pid in session.alive:
            if pid in self.processes:
                session.put_process(self.processes[pid])
        session.put_losses(self._counts())
        session.spool.put(type="end", end_ns=session.end_ns, reason=session.reason, cost=session.cost())
        session.spool.flush()
        self._detach(session)

    def abandon(self, session: Session) -> None:
        """Ends a session whose client has gone or whose spool failed, as far as it goes."""
        if session.bit in self.sessions:
            self.finish(session)
        session.close()

    def _detach(self, session: Session) -> None:
        self.sessions.pop(session.bit, None)
        self._native_sessions[session.bit] = ffi.NULL
        self._apply_settings()
        self._attachments.apply(list(self.sessions.values()))
        masks = _rate_masks(self.sessions.values())
        for period_ns in list(self._rates.keys()):
            if period_ns in masks:
                self._rates.put(period_ns, ffi.new("uint64_t *", masks[period_ns]))
            else:
                self._rates.delete(period_ns)
        for pid in list(self._targets.keys()):
            target = self._targets.get(pid)
            if not target:
                continue
            target.sessions &= ~session.mask
            target.follow &= ~session.mask
            if target.sessions:
                self._targets.put(pid, target)
            else:
                self._targets.delete(pid)
                self._forget(pid)
        for regions in list(self.regions.values()):
            for region in regions:
                region.remove(session.bit)
        if not self.sessions:
            self._forget_everything()

    def _forget(self, pid: int) -> None:
        for region in self.regions.pop(pid, []):
            region.end()
            region.close()
        process = self.processes.pop(pid, None)
        if process:
            process.close()

    def _forget_everything(self) -> None:
        for pid in {*self.processes, *self.regions}:
            self._forget(pid)
        for tid in list(self._threads.keys()):
            self._threads.delete(tid)

    # ---- draining ----

    def drain(self) -> None:
        """Moves everything that is waiting to the spools."""
        lib.pln_kernel_ring_drain(self._ring, self._native_sessions, self._rest)
        self._handle_rest()
        now = monotonic_ns()
        for process in self.processes.values():
            if not process.end_ns:
                self._look_for_python(process, now)
        for session in self.sessions.values():
            session.flush(self.processes, self._symbolizer)
        for regions in self.regions.values():
            for region in regions:
                region.drain()

    def _handle_rest(self) -> None:
        data = bytes(ffi.buffer(self._rest.data, self._rest.used)) if self._rest.used else b""
        self._rest.used = 0
        at = 0
        room = ffi.new("struct pln_event *")
        while at < len(data):
            length = int.from_bytes(data[at : at + 4], "little")
            at += 8
            ffi.memmove(room, data[at : at + length], length)
            at += length
            _HANDLERS[room.sample.kind](self, room)

    def _sessions_of(self, event: Any) -> list[Session]:
        return [session for session in self.sessions.values() if event.sessions & session.mask]

    def _on_fork(self, event: Any) -> None:
        pid, parent = event.sample.pid, self.processes.get(event.sample.waker_pid)
        try:
            info = read_process(pid, self._boot_offset_ns)
        except OSError:
            return  # gone already: its events still count, under its pid
        now = monotonic_ns()
        process = parent.fork(info, now) if parent else Process(info, now)
        self.processes[pid] = process
        self._look_for_python(process)
        for session in self._sessions_of(event):
            session.alive.add(pid)
            session.put_process(process)

    def _on_exec(self, event: Any) -> None:
        pid = event.sample.pid
        self._end_program(pid, event.sample.start_ns)
        try:
            process = self.processes[pid] = Process(read_process(pid, self._boot_offset_ns), event.sample.start_ns)
        except OSError:
            return
        self._look_for_python(process)
        for session in self._sessions_of(event):
            try:
                allow(session.uid, pid)
            except AgentError:  # it has become another user's
                self._drop_target(session, pid)
                continue
            session.alive.add(pid)
            session.put_process(process)

    def _on_exit(self, event: Any) -> None:
        pid = event.sample.pid
        self._end_program(pid, event.sample.start_ns)
        for session in self.sessions.values():
            session.alive.discard(pid)
            if pid in self.processes and event.sessions & session.mask:
                session.put_process(self.processes[pid])

    def _end_program(self, pid: int, end_ns: int) -> None:
        """The program in this process has ended: nobody writes into its region any more."""
        for session in self.sessions.values():
            session.flush(self.processes, self._symbolizer)  # its stacks, while we know what they meant
        for region in self.regions.pop(pid, []):
            for bit in region.sessions:
                if bit in self.sessions:
                    self._leave_region(self.sessions[bit], region)
            region.close()
        process = self.processes.get(pid)
        if process:
            process.end_ns = end_ns
            process.close()

    def _on_thread_exit(self, event: Any) -> None:
        thread_time = ffi.cast("struct pln_thread_time *", event.frames)
        for session in self._sessions_of(event):
            session.put_thread(event.sample.tid, thread_time, event.sample.start_ns)
            session.thread_base.pop(event.sample.tid, None)

    def _on_name(self, event: Any) -> None:
        """The text of a range's name, from the USDT transport: an entry of the string log that we do not see."""
        pid, name = event.sample.pid, event.sample.range_name
        text = bytes(ffi.buffer(event.frames))[: event.sample.weight_ns]
        entry = len(text).to_bytes(4, "little") + bytes(4) + text
        entry += bytes(-len(entry) % 8)
        for session in self._sessions_of(event):
            session.spool.put(type="region", region=USDT_REGION | pid, pid=pid, start_ns=0)
            session.spool.write(lib.PLN_BLOCK_STRINGS, entry, len(entry), pid, USDT_REGION | pid, name * 8)

    # ---- processes ----

    def _look_for_python(self, process: Process, now_ns: int | None = None) -> None:
        if not process.look_for_python(now_ns or monotonic_ns()):
            return
        pid = process.info.pid
        target = self._targets.get(pid)
        if target:
            target.python, target.tss_key, target.tss_offset = process.python_target()
            self._targets.put(pid, target)
            for session in self.sessions.values():
                if target.sessions & session.mask:
                    session.put_process(process)

    def _drop_target(self, session: Session, pid: int) -> None:
        target = self._targets.get(pid)
        session.alive.discard(pid)
        if target:
            target.sessions &= ~session.mask
            target.follow &= ~session.mask
            self._targets.put(pid, target)

    # ---- regions ----

    def announce(self, pid: int, fd: int) -> None:
        """A process has made its region and sent it. The descriptor stays the caller's."""
        lib.pln_kernel_ring_drain(self._ring, self._native_sessions, self._rest)
        self._handle_rest()  # the fork that made the process comes before its region
        wanted = [session for session in self.sessions.values() if pid in session.alive]
        if wanted:
            region = self._open_region(pid, fd)
            if region:
                for session in wanted:
                    self._join_region(session, region)

    def _find_regions(self, pid: int) -> list[Region]:
        with suppress(OSError):
            for path in find_regions(pid):
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    self._open_region(pid, fd)
                finally:
                    os.close(fd)
        return self.regions.get(pid, [])

    def _open_region(self, pid: int, fd: int) -> Region | None:
        inode = os.fstat(fd).st_ino
        known = [region for region in self.regions.get(pid, []) if region.inode == inode]
        if known:
            return known[0]
        try:
            region = Region(fd, pid, self._region_numbers + 1)
        except RegionRefused as error:
            self._note_refusal(pid, str(error))
            return None
        self._region_numbers += 1
        self.regions.setdefault(pid, []).append(region)
        target = self._targets.get(pid)
        if target:
            target.tls_offset = region.tls_offset
            self._targets.put(pid, target)
        return region

    def _join_region(self, session: Session, region: Region) -> None:
        if session.request.transport == "usdt" or session.bit in region.sessions:
            return
        try:
            region.add(session.bit, session.spool)
        except RegionRefused as error:
            self._note_refusal(region.pid, str(error))

    def _note_refusal(self, pid: int, reason: str) -> None:
        for session in self.sessions.values():
            if pid in session.alive:
                kind = "region_busy" if "another" in reason else "region_refused"
                session.lost[kind, pid, 0] = session.lost.get((kind, pid, 0), 0) + 1

    def _leave_region(self, session: Session, region: Region) -> None:
        if session.bit not in region.sessions:
            return
        region.drain()
        for kind, tid, count in region.losses():
            session.lost[kind, region.pid, tid] = session.lost.get((kind, region.pid, tid), 0) + count
        session.ring_records += region.records(session.bit)
        region.remove(session.bit)

    def ranges(self, session: Session) -> int:
        """Records from rings and probes that this session has got."""
        waiting = sum(region.records(session.bit) for regions in self.regions.values() for region in regions)
        return session.ring_records + waiting + int(session.native.range_count)

    def lost(self, session: Session) -> int:
        """Events of all kinds that this session has lost so far."""
        kernel = sum(self._counts()) - sum(session.counts_base)
        rings = sum(
            count
            for regions in self.regions.values()
            for region in regions
            if session.bit in region.sessions
            for _, _, count in region.losses()
        )
        return kernel + rings + sum(session.lost.values())

    # ---- threads ----

    def _put_threads(self, session: Session) -> None:
        """Exact times of all threads, and the waits that have not ended."""
        seen = set()
        for tid in self._threads.keys():
            thread = self._threads.get(tid)
            target = self._targets.get(thread.time.pid) if thread else None
            if not target or not target.sessions & session.mask:
                continue
            seen.add(tid)
            session.put_thread(tid, thread.time, session.end_ns)
            if thread.time.state == lib.PLN_THREAD_OFF:
                self._put_open_wait(session, tid, thread)
        for pid in session.alive:
            with suppress(OSError):
                for tid in thread_ids(pid):
                    if tid not in seen:
                        self._put_still_thread(session, pid, tid)

    def _put_open_wait(self, session: Session, tid: int, thread: Any) -> None:
        sample = thread.wait.sample
        sample.kind, sample.tid, sample.pid = lib.PLN_WAIT, tid, thread.time.pid
        sample.flags |= lib.PLN_UNFINISHED
        sample.start_ns, sample.end_ns = thread.time.since_ns, max(session.end_ns, thread.time.since_ns)
        sample.weight_ns = session.end_ns - thread.time.woken_ns if thread.time.woken_ns else 0
        lib.pln_session_add(session.native, ffi.addressof(thread, "wait"))

    def _put_still_thread(self, session: Session, pid: int, tid: int) -> None:
        """A thread that the scheduler never touched: it slept, or had a CPU to itself, all the time."""
        try:
            with open(f"/proc/{pid}/task/{tid}/stat", encoding="ascii", errors="replace") as file:
                stat = file.read()
        except OSError:
            return
        running = stat[stat.rindex(")") + 2] == "R"
        state = lib.PLN_THREAD_ON if running else lib.PLN_THREAD_OFF
        thread = ffi.new("struct pln_thread *")
        thread.time = {"first_ns": session.start_ns, "since_ns": session.start_ns, "pid": pid, "state": state}
        thread.time.comm = stat[stat.index("(") + 1 : stat.rindex(")")].encode()[:15]
        session.put_thread(tid, thread.time, session.end_ns)
        if not running:
            thread.wait.sample.state = 1
            self._put_open_wait(session, tid, thread)

    def _counts(self) -> list[int]:
        fd = self.programs.map_fd("counts")
        return [sum_per_cpu(fd, index, self._possible_cpus) for index in range(lib.PLN_COUNTS)]


_HANDLERS = {
    lib.PLN_EVENT_FORK: Recorder._on_fork,
    lib.PLN_EVENT_EXEC: Recorder._on_exec,
    lib.PLN_EVENT_EXIT: Recorder._on_exit,
    lib.PLN_EVENT_THREAD_EXIT: Recorder._on_thread_exit,
    lib.PLN_EVENT_NAME: Recorder._on_name,
}


def allow(uid: int, pid: int) -> None:
    """Refuses another user's process.

    Raises:
        AgentError: it is not this user's, or runs with privileges that the user has not.
        psutil.Error: there is no such process.
    """
    if uid == 0:
        return
    uids = psutil.Process(pid).uids()
    if {uids.real, uids.effective, uids.saved} != {uid}:
        raise AgentError(f"may not record process {pid}", "it belongs to another user", "record it as that user or as root")


def _rate_masks(sessions: Any) -> dict[int, int]:
    masks: dict[int, int] = {}
    for session in sessions:
        if session.request.rate_hz:
            masks[session.request.period_ns] = masks.get(session.request.period_ns, 0) | session.mask
    return masks


def _possible_cpus() -> int:
    """Entries of a per-CPU map value: the kernel's possible CPUs, "0-3" or "0,2-5"."""
    with open("/sys/devices/system/cpu/possible", encoding="ascii") as file:
        return int(file.read().strip().replace(",", "-").split("-")[-1]) + 1
