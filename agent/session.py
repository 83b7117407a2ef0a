"""One client's recording: which processes, what was asked, where it goes, what was lost."""

from __future__ import annotations

import os
import platform
import resource
import time
from dataclasses import dataclass, field
from typing import Any

from pillion._native import ffi, lib
from pillion_agent.errors import AgentError
from pillion_agent.probe_hits import ProbeHits
from pillion_agent.probe_request import ProbePattern, parse_patterns
from pillion_agent.process import Process
from pillion_agent.spool import Spool, log_entry
from pillion_agent.symbols import Symbolizer

VERSION = 1
MAX_RATE_HZ = 10_000
_STACK_HEAD = ffi.sizeof("struct pln_new_stack")
_USDT_RANGE = ffi.sizeof("struct pln_usdt_range")
_KERNEL_LOSSES = ("samples", "waits", "kernel_events", "threads", "wait_stacks", "probe_hits")  # by PLN_COUNT_LOST_*
USDT_REGION = 1 << 31  # | pid: the number of the region that stands for a process's USDT probes


def monotonic_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@dataclass(frozen=True)
class Request:
    """A client's "record" message, checked.

    Raises:
        AgentError: from parse(), code 2.
    """

    pids: tuple[int, ...]
    all: bool
    follow: bool
    rate_hz: int
    wait_threshold_ns: int
    transport: str
    probes: tuple[ProbePattern, ...] = ()
    launch_stacks: bool = False

    @property
    def period_ns(self) -> int:
        return round(1e9 / self.rate_hz) if self.rate_hz else 0

    @staticmethod
    def parse(message: dict[str, Any], client_pid: int, files: int = 0) -> Request:
        """files: descriptors of files with probes that came along."""

        def refuse(what: str, fix: str) -> AgentError:
            return AgentError("bad request", what, fix, code=2)

        pids = message.get("pids") or []
        if message.get("self"):
            pids = [client_pid]
        rate, threshold = message.get("rate_hz", 99), message.get("wait_threshold_ns", 100_000)
        if not isinstance(pids, list) or not all(isinstance(pid, int) and 0 < pid < 1 << 31 for pid in pids):
            raise refuse("pids must be a list of process ids", "give numbers")
        if not pids and not message.get("all"):
            raise refuse("no process named", "give pids, self or all")
        if not isinstance(rate, int) or not 0 <= rate <= MAX_RATE_HZ:
            raise refuse(f"rate_hz {rate!r} is out of range", f"use 0 (no samples) to {MAX_RATE_HZ}")
        if not isinstance(threshold, int) or not 0 <= threshold <= 10**18:
            raise refuse(f"wait_threshold_ns {threshold!r} is out of range", "use nanoseconds, 0 or more")
        transport = message.get("transport", "rings")
        if transport not in ("rings", "usdt"):
            raise refuse(f"unknown transport {transport!r}", "use rings or usdt")
        return Request(
            pids=tuple(pids),
            all=bool(message.get("all")),
            follow=bool(message.get("follow")),
            rate_hz=rate,
            wait_threshold_ns=threshold,
            transport=transport,
            probes=parse_patterns(message.get("probes", []), files),
            launch_stacks=bool(message.get("launch_stacks")),
        )


@dataclass
class ThreadTimes:
    """Totals of a thread at one moment, in ns; what a session subtracts from the totals at its end."""

    on_cpu_ns: int = 0
    off_cpu_ns: int = 0
    runnable_ns: int = 0
    switches: int = 0

    @staticmethod
    def of(thread_time: Any, at_ns: int) -> ThreadTimes:
        """From a struct pln_thread_time, with the state it is in now counted up to at_ns."""
        open_ns = max(at_ns - thread_time.since_ns, 0)
        on = thread_time.state == lib.PLN_THREAD_ON
        return ThreadTimes(
            thread_time.on_cpu_ns + (open_ns if on else 0),
            thread_time.off_cpu_ns + (0 if on else open_ns),
            thread_time.runnable_ns + (0 if on or not thread_time.woken_ns else max(at_ns - thread_time.woken_ns, 0)),
            thread_time.switches,
        )


@dataclass
class Session:
    """The state of one recording; Recorder drives it."""

    bit: int
    request: Request
    spool: Spool
    uid: int
    start_ns: int = field(default_factory=monotonic_ns)
    end_ns: int = 0
    alive: set[int] = field(default_factory=set)
    thread_base: dict[int, ThreadTimes] = field(default_factory=dict)
    counts_base: list[int] = field(default_factory=list)
    lost: dict[tuple[str, int, int], int] = field(default_factory=dict)
    hits: ProbeHits | None = None
    ring_records: int = 0
    reason: str = "finished"

    def __post_init__(self) -> None:
        self.native = lib.pln_session_new(self.request.wait_threshold_ns)
        if not self.native:
            raise AgentError("cannot record", "out of memory", "free some")
        self._cpu_ns = time.process_time_ns()

    @property
    def mask(self) -> int:
        return 1 << self.bit

    def put_meta(self) -> None:
        request = self.request
        self.spool.put(
            type="meta",
            version=VERSION,
            collector="agent",
            host=platform.node(),
            kernel=platform.release(),
            ncpu=os.cpu_count(),
            rate_hz=request.rate_hz,
            period_ns=request.period_ns,
            wait_threshold_ns=request.wait_threshold_ns,
            transport=request.transport,
            start_ns=self.start_ns,
            realtime_offset_ns=time.clock_gettime_ns(time.CLOCK_REALTIME) - monotonic_ns(),
            pids=list(request.pids),
            all=request.all,
            probes=[str(pattern) for pattern in request.probes],
            launch_stacks=request.launch_stacks,
            agent_pid=os.getpid(),
        )

    def put_process(self, process: Process) -> None:
        info = process.info
        self.spool.put(
            type="process",
            pid=info.pid,
            ppid=info.ppid,
            start_ns=info.start_ns,
            end_ns=process.end_ns or None,
            comm=info.comm,
            cmdline=info.cmdline,
            uid=info.uid,
            python=process.python_version,
            python_unavailable=process.python_unavailable,
            cuda_unavailable=process.cuda.unavailable,
            torch_unavailable=process.torch.unavailable,
            collectors_unavailable=process.collectors_unavailable,
        )

    def put_thread(self, tid: int, thread_time: Any, at_ns: int) -> None:
        """A thread's exact times within this session."""
        now, base = ThreadTimes.of(thread_time, at_ns), self.thread_base.get(tid, ThreadTimes())
        self.spool.put(
            type="thread",
            pid=thread_time.pid,
            tid=tid,
            comm=ffi.string(thread_time.comm).decode(errors="replace"),
            on_cpu_ns=now.on_cpu_ns - base.on_cpu_ns,
            off_cpu_ns=now.off_cpu_ns - base.off_cpu_ns,
            runnable_ns=now.runnable_ns - base.runnable_ns,
            switches=now.switches - base.switches,
            first_ns=max(thread_time.first_ns, self.start_ns),
            last_ns=at_ns,
        )

    def flush(self, processes: dict[int, Process], symbolizer: Symbolizer) -> None:
        """Writes what the last drain of the kernel's ring left for this session."""
        native = self.native
        stacks = bytes(ffi.buffer(native.stacks.data, native.stacks.used)) if native.stacks.used else b""
        at = 0
        while at < len(stacks):
            head = ffi.from_buffer("struct pln_new_stack *", stacks[at : at + _STACK_HEAD])
            at += _STACK_HEAD
            counts = (head.n_kernel, head.n_native, head.n_python)
            frames = list(memoryview(stacks)[at : at + 8 * sum(counts)].cast("Q"))
            at += 8 * sum(counts)
            kernel, user = frames[: counts[0]], frames[counts[0] :]
            stack = symbolizer.stack(processes.get(head.pid), kernel, user[: counts[1]], user[counts[1] :])
            self.spool.put_stack(head.id, stack)
        self.spool.flush()
        self.spool.write(lib.PLN_BLOCK_SAMPLES, native.samples.data, native.samples.used)
        self._flush_ranges()
        if self.hits:
            self._add_hits(self.hits)
            self.hits.flush()
        lib.pln_session_clear(native)

    def _flush_ranges(self) -> None:
        """Ranges of the USDT transport, in one RECORDS block per stretch of the same process."""
        used = self.native.ranges.used
        if not used:
            return
        ranges = ffi.cast("struct pln_usdt_range *", self.native.ranges.data)
        by_pid: dict[int, bytearray] = {}
        for index in range(used // _USDT_RANGE):
            by_pid.setdefault(ranges[index].pid, bytearray()).extend(ffi.buffer(ranges[index].record))
        for pid, records in by_pid.items():
            self.spool.write(lib.PLN_BLOCK_RECORDS, bytes(records), len(records), pid, USDT_REGION | pid)

    def _add_hits(self, hits: ProbeHits) -> None:
        native = self.native.hits
        if native.used:
            hits.add(bytes(ffi.buffer(native.data, native.used)))
            native.used = 0

    def close_probe_ranges(self, end_ns: int, pid: int, tid: int | None = None) -> None:
        """A thread or a process has ended, and with it the ranges that its probes began."""
        if self.hits:
            self._add_hits(self.hits)
            self.hits.close(end_ns, pid, tid)

    def put_usdt_string(self, pid: int, string: int, text: bytes) -> None:
        """A string of a process whose records come through USDT probes, under its own number."""
        entry = log_entry(text)
        self.spool.put(type="region", region=USDT_REGION | pid, pid=pid, start_ns=0)
        self.spool.write(lib.PLN_BLOCK_STRINGS, entry, len(entry), pid, USDT_REGION | pid, string * 8)

    def lose(self, kind: str, pid: int, tid: int, count: int) -> None:
        self.lost[kind, pid, tid] = self.lost.get((kind, pid, tid), 0) + count

    def put_losses(self, counts: list[int]) -> None:
        """Cumulative losses; counts are the kernel's totals now."""
        kernel = dict(
            zip(("samples", "waits", "kernel_events", "threads", "wait_stacks", "probe_hits"), counts, strict=True)
        )
        base = dict(zip(kernel, self.counts_base, strict=True))
        for kind, count in kernel.items():
            self.lost[kind, 0, 0] = count - base[kind]
        self.lost["memory", 0, 0] = self.native.lost_memory
        self.lost["stacks", 0, 0] = self.native.lost_stacks
        for (kind, pid, tid), count in self.lost.items():
            self.spool.put(type="loss", kind=kind, pid=pid, tid=tid, count=count)

    def losses_by_kind(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for (kind, _, _), count in self.lost.items():
            total[kind] = total.get(kind, 0) + count
        return total

    def cost(self) -> dict[str, int]:
        """What the agent spent since this session began: CPU, wall, and its resident memory at most."""
        return {
            "cpu_ns": time.process_time_ns() - self._cpu_ns,
            "wall_ns": monotonic_ns() - self.start_ns,
            "rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }

    def close(self) -> None:
        lib.pln_session_free(self.native)
        self.native = ffi.NULL
        self.spool.close()
