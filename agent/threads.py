"""The eBPF map "threads": exact on-CPU and off-CPU times, and the waits that have not ended."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pillion._native import ffi, lib
from pillion_agent.maps import Map
from pillion_agent.procfs import thread_ids
from pillion_agent.session import Session, ThreadTimes
from pillion_agent.targets import Targets


class Threads:
    def __init__(self, threads_fd: int, stacks_fd: int) -> None:
        self._map = Map(threads_fd, "uint32_t", "struct pln_thread")
        self._stacks = Map(stacks_fd, "uint32_t", "struct pln_event")

    def set_base(self, session: Session) -> None:
        """Notes the totals at a session's start, which it subtracts at its end."""
        for tid in self._map.keys():  # noqa: SIM118 - a map in the kernel, not a dict
            thread = self._map.get(tid)
            if thread:
                session.thread_base[tid] = ThreadTimes.of(thread.time, session.start_ns)

    def report(self, session: Session, targets: Targets) -> None:
        """Writes the times of all the session's threads, and their open waits as PLN_UNFINISHED."""
        seen = set()
        for tid in self._map.keys():  # noqa: SIM118
            thread = self._map.get(tid)
            if thread and targets.sessions(thread.time.pid) & session.mask:
                seen.add(tid)
                session.put_thread(tid, thread.time, session.end_ns)
                if thread.time.state == lib.PLN_THREAD_OFF:
                    stack = self._stacks.get(tid) if thread.frames else None
                    _put_open_wait(session, thread, stack or ffi.new("struct pln_event *"))
        for pid in session.alive:
            with suppress(OSError):
                for tid in thread_ids(pid):
                    if tid not in seen:
                        _report_still_thread(session, pid, tid)

    def forget_all(self) -> None:
        for tid in list(self._map.keys()):
            self._map.delete(tid)
            self._stacks.delete(tid)


def _put_open_wait(session: Session, thread: Any, event: Any) -> None:
    """Adds the wait that a thread is in; event holds its stack, or none."""
    time = thread.time
    event.sample = thread.wait
    sample = event.sample
    sample.flags |= lib.PLN_UNFINISHED
    sample.start_ns = max(time.since_ns, session.start_ns)
    sample.end_ns = max(session.end_ns, sample.start_ns)
    # It may have been woken after the moment at which the session ended.
    runnable_ns = sample.end_ns - max(time.woken_ns, sample.start_ns) if time.woken_ns else 0
    sample.weight_ns = max(runnable_ns, 0)
    lib.pln_session_add(session.native, event)


def _report_still_thread(session: Session, pid: int, tid: int) -> None:
    """A thread that the scheduler never touched: it slept, or had a CPU to itself, all the time."""
    try:
        with open(f"/proc/{pid}/task/{tid}/stat", encoding="ascii", errors="replace") as file:
            stat = file.read()
    except OSError:
        return
    running = stat[stat.rindex(")") + 2] == "R"
    thread = ffi.new("struct pln_thread *")
    thread.time.first_ns = thread.time.since_ns = session.start_ns
    thread.time.pid = pid
    thread.time.state = lib.PLN_THREAD_ON if running else lib.PLN_THREAD_OFF
    thread.time.comm = stat[stat.index("(") + 1 : stat.rindex(")")].encode()[:15]
    session.put_thread(tid, thread.time, session.end_ns)
    if not running:
        thread.wait.kind, thread.wait.pid, thread.wait.tid, thread.wait.state = lib.PLN_WAIT, pid, tid, 1
        _put_open_wait(session, thread, ffi.new("struct pln_event *"))
