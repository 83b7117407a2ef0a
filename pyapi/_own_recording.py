"""One recording of this process by itself: ranges, samples if an agent runs, torch's operators if asked for."""

from __future__ import annotations

import atexit
import logging
import os
import tempfile
import threading
import time
import warnings
import weakref
from typing import IO, TYPE_CHECKING, Any, Literal

from pillion._client import RecordRequest
from pillion._errors import PillionError, UsageError
from pillion._native import lib
from pillion.torch_engine.engine import (
    ProfilerStats,
    TorchEngine,
    TorchOptions,
    is_private_device,
    run_on_profiler_start,
    run_on_profiler_stop,
    torch_autograd,
)
from pillion.torch_engine.operators import record_operators

if TYPE_CHECKING:
    from pillion._capture import Capture
    from pillion._collector import AgentCollector, OwnCollector
    from pillion._tables import Columns

_log = logging.getLogger("pillion")

AgentUse = Literal["auto", "require", "never"]

# Who profiles each process, and the recording that runs. A fork copies them, so they are looked up by pid; setdefault
# needs no lock, which a fork could leave locked. The owner is known weakly: a notebook drops profiles that run.
_owners: dict[int, weakref.ref[object]] = {}
_running: dict[int, OwnRecording] = {}


def claim(owner: object) -> None:
    """Makes ``owner`` the one that profiles this process; a recording whose owner is gone ends.

    Raises:
        RuntimeError: another does.
    """
    pid, claimed = os.getpid(), weakref.ref(owner)
    before = _owners.setdefault(pid, claimed)()
    if before is None:
        _end_abandoned()
        _owners[pid] = claimed
    elif before is not owner:
        raise RuntimeError("another profile() runs in this process; it records every thread, so one is enough")


def _end_abandoned() -> None:
    abandoned = _running.get(os.getpid())
    if abandoned is not None:
        abandoned.stop()
        text = "a profile() was dropped while it ran: what it recorded is lost"
        warnings.warn(text, ResourceWarning, stacklevel=4)


def _end_at_exit() -> None:
    """The interpreter ends inside a profile: torch's engine would crash the process when torch is torn down."""
    recording = _running.get(os.getpid())
    if recording is not None:
        recording.stop()


def release(pid: int) -> None:
    """Nobody profiles the process any more."""
    _owners.pop(pid, None)


class OwnRecording:
    """``prepare`` if there is time for it, ``start``, ``stop``, then ``capture``.

    Args:
        request: what the agent shall record.
        agent: "auto" uses an agent that runs, "require" insists on it, "never" does without.
        torch: what torch's engine shall collect; None: nothing.

    Attributes:
        stats: how long the parts took.
        is_started: whether ``start`` was called.
    """

    def __init__(
        self, request: RecordRequest, agent: AgentUse, torch: TorchOptions | None = None, is_disabled: bool = False
    ) -> None:
        self._request = request
        self._agent = agent
        self._is_disabled = is_disabled
        self.stats = ProfilerStats()
        self.torch = TorchEngine(torch, self.stats) if torch is not None and torch_autograd() is not None else None
        self._spool: IO[bytes] | None = None
        self._collector: AgentCollector | OwnCollector | None = None
        self._capture: Capture | None = None
        self._reading = threading.Lock()  # of several threads that ask, one reads
        self._is_prepared = False
        self._clock_offset_ns = 0  # torch's clock, which is the wall's, less CLOCK_MONOTONIC
        self.is_started = False

    def prepare(self) -> None:
        """Warms up what takes long to start. From then until ``stop`` CUPTI, which serves one at a time, is torch's."""
        if self.torch is not None and not self._is_prepared:
            self._lend_cupti(lib.PLN_CUPTI_QUIETLY)
            try:
                self.torch.prepare()
            except BaseException:
                self._lend_cupti(lib.PLN_CUPTI_BACK)
                raise
        self._is_prepared = True

    def _lend_cupti(self, how: int) -> None:
        """Where torch's engine records what CUDA's devices do, we do not: the capture has its records."""
        if self.torch is not None and self.torch.uses_cupti:
            lib.pln_cupti_step_aside(how)

    def start(self) -> None:
        """Begins to record.

        Raises:
            Unavailable: no agent although one is required, or somebody records this process already.
        """
        self.prepare()
        try:
            if self.torch is None and not self._is_disabled:
                record_operators()
            self._start_collector()
            self.is_started = True
            if self._is_disabled:
                return
            _running[os.getpid()] = self
            atexit.register(_end_at_exit)
            run_on_profiler_start()
            if self.torch is not None:
                self.torch.start()
        except BaseException:
            if self._end():
                self._stop_collector()
            self._lend_cupti(lib.PLN_CUPTI_BACK)
            raise

    def _end(self) -> bool:
        """Whether it ran, in this process."""
        if _running.get(os.getpid()) is not self:
            return False
        del _running[os.getpid()]
        atexit.unregister(_end_at_exit)
        return True

    def stop(self) -> PillionError | None:
        """Ends the recording; returns what cut it short, if anything did."""
        if not self._end():
            return None  # it ended with its process's claim, or is another process's
        try:
            if self.torch is not None:
                self.torch.stop()
                self._clock_offset_ns = _clock_offset_ns()
        finally:
            failure = self._stop_collector()
            self._lend_cupti(lib.PLN_CUPTI_BACK)
        return failure

    def _stop_collector(self) -> PillionError | None:
        """The part of ``stop`` that is Pillion's own."""
        run_on_profiler_stop()
        collector, self._collector = self._collector, None
        return collector.stop() if collector else None

    @property
    def capture(self) -> Capture:
        """What was recorded; read when it is first asked for."""
        with self._reading:
            if self._capture is None:
                self._capture = self._read()
        return self._capture

    def _read(self) -> Capture:
        from pillion._capture import read_spool_capture

        assert self._spool is not None, "start() comes first"
        capture = read_spool_capture(self._spool)
        if self.torch is not None and self.torch.result is not None:
            self._add_torch(capture, self.torch)
        self._spool.close()
        return capture

    def _add_torch(self, capture: Capture, engine: TorchEngine) -> None:
        from pillion.torch_engine.join import join
        from pillion.torch_engine.trace import read_trace

        wants = engine.options
        begin_ns = time.perf_counter_ns()
        trace = read_trace(
            engine.result,
            use_device=wants.use_device,
            record_shapes=wants.record_shapes,
            with_stack=wants.with_stack,
            with_flops=wants.with_flops,
            is_privateuse1=is_private_device(wants.use_device),
            timeout_s=wants.timeout_s,
        )
        self.stats.parse_kineto_call_duration_us = (time.perf_counter_ns() - begin_ns) // 1000
        begin_ns = time.perf_counter_ns()
        offset_ns = capture.meta["realtime_offset_ns"] = self._clock_offset_ns
        pid = capture.meta["pids"][0] if capture.meta.get("pids") else os.getpid()
        capture.columns, capture.detail = join(
            capture.columns,
            trace,
            engine.result,
            pid=pid,
            offset_ns=offset_ns,
            use_device=wants.use_device,
            pauses_ns=engine.pauses_ns,
        )
        capture.meta["start_ns"] = trace.origin_ns - offset_ns
        capture.meta["trace_id"] = engine.trace_id
        if trace.unread:
            capture.columns["losses"] = _with_unread(capture.columns["losses"], trace.unread, wants.timeout_s or 0, pid)
        self.stats.function_events_build_tree_call_duration_us = (time.perf_counter_ns() - begin_ns) // 1000

    def _start_collector(self) -> None:
        from pillion import _collector

        if self._is_disabled:
            self._spool = self._new_spool()
            objects = [_collector.meta_object("profile(enabled=False)"), _collector.end_object("disabled")]
            _collector.write_objects(self._spool.fileno(), objects)
            return
        why_alone = "profile(agent='never')"
        if self._agent != "never":
            self._spool = self._new_spool()
            try:
                self._collector = _collector.AgentCollector(self._request, self._spool.fileno())
                return
            except UsageError:
                raise
            except PillionError as error:
                if self._agent == "require":
                    raise
                why_alone = str(error)
        # A file of its own: an agent that failed late may still hold, and have begun, the other.
        self._spool = self._new_spool()
        self._collector = _collector.OwnCollector(self._spool.fileno(), why_alone)

    def _new_spool(self) -> IO[bytes]:
        """A file without a name. On disk, not in memory: a long profile must not eat what its job needs."""
        try:
            spool = tempfile.TemporaryFile(prefix="pillion-")  # noqa: SIM115 it outlives this function
        except OSError as error:
            raise PillionError("no place for the profile's temporary file", str(error), "set TMPDIR") from error
        weakref.finalize(self, spool.close)  # nobody may ever ask for the results
        return spool


def _clock_offset_ns() -> int:
    """CLOCK_REALTIME less CLOCK_MONOTONIC, to some 10 ns: of several readings the one that took the least time."""
    readings = []
    for _ in range(8):
        before_ns, wall_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after_ns - before_ns, wall_ns - (before_ns + after_ns) // 2))
    return min(readings)[1]


def _with_unread(losses: Columns, count: int, timeout_s: float, pid: int) -> Columns:
    """The table ``losses`` with the events of torch that nobody read."""
    import numpy as np

    from pillion._tables import from_rows

    place = f"torch's events, after post_processing_timeout_s={timeout_s}"
    _log.warning("%d of %s are left out", count, place)
    row = from_rows("losses", [("post_processing_timeout", pid, 0, count, place)])
    return {name: np.concatenate([losses[name], row[name]]) for name in losses}


def own_request(rate_hz: int, wait_threshold_us: int, agent: Any) -> RecordRequest:
    """What an agent is asked to record of this process.

    Raises:
        UsageError: an argument is out of range.
    """
    if agent not in ("auto", "require", "never"):
        raise UsageError("profile()", f"agent={agent!r}", 'agent is "auto", "require" or "never"')
    if rate_hz < 0 or wait_threshold_us < 0:
        raise UsageError("profile()", "rate_hz or wait_threshold_us is negative", "0 switches either off")
    return RecordRequest(own_process=True, rate_hz=rate_hz, wait_threshold_ns=wait_threshold_us * 1000)
