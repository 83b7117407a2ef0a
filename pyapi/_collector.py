"""Who fills the spool of a ``profile()``: the agent, or a thread of the native library in this very process.

Both have one shape: made means recording, ``stop()`` ends it and says what was amiss.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from typing import Any

from pillion._client import AgentClient, RecordRequest
from pillion._errors import PillionError, Unavailable
from pillion._native import ffi, lib
from pillion_probes.losses import REGION_LOSSES

# Only rings that lost something report; more of them than this would be news in itself.
_LOSSES_MAX = 4096


class AgentCollector:
    """The agent records this process: ranges, samples, waits.

    Raises:
        PillionError: no agent runs, or it refuses.
    """

    def __init__(self, request: RecordRequest, spool_fd: int) -> None:
        _set_up_region()
        self._client = AgentClient()
        lib.pln_cupti_await()
        try:
            self._client.record(request, spool_fd)
        except BaseException:
            self._end()
            raise
        lib.pln_sources_follow()

    def stop(self) -> PillionError | None:
        """Ends the session; returns why it had ended before, if it had."""
        try:
            self._client.finish()
        except PillionError as error:
            return error
        finally:
            self._end()
        return None

    def _end(self) -> None:
        self._client.close()
        lib.pln_cupti_await_no_more()


class OwnCollector:
    """This process records itself: ranges only.

    Args:
        spool_fd: where they go.
        why: the reason why no agent does it; the capture keeps it, as the meta's ``samples_unavailable``.

    Raises:
        Unavailable: somebody records this process already, or no region can be made.
    """

    def __init__(self, spool_fd: int, why: str) -> None:
        _set_up_region()
        self._spool_fd = spool_fd
        write_objects(spool_fd, [meta_object(why), _process_object()])
        result = lib.pln_self_start(spool_fd)
        if result == -errno.EBUSY:
            raise Unavailable(
                "this process is being recorded already, by an agent or by another profile()",
                "end the other recording first; it has these ranges too",
            )
        if result:
            raise Unavailable(f"this process cannot record itself: {os.strerror(-result)}", "`pillion doctor`")

    def stop(self) -> PillionError | None:
        """Ends the recording; returns what kept it from being whole, if anything did."""
        sink = ffi.new("struct pln_sink *")
        losses = ffi.new("struct pln_loss[]", _LOSSES_MAX)
        count = lib.pln_self_stop(sink, losses, _LOSSES_MAX)
        if count < 0:
            return PillionError("the recording of this process had ended", os.strerror(-count))
        if sink.error:
            return PillionError("the profile's temporary file cannot be written", os.strerror(sink.error), "set TMPDIR")
        lost = [losses[index] for index in range(min(count, _LOSSES_MAX))]
        write_objects(self._spool_fd, [*map(_loss, lost), end_object("finished")])
        return None


def write_objects(spool_fd: int, objects: list[dict[str, Any]]) -> None:
    """Appends a JSON block.

    Raises:
        PillionError: the file cannot take it.
    """
    data = json.dumps(objects).encode()
    result = lib.pln_spool_json(spool_fd, data, len(data))
    if result:
        raise PillionError("the profile's temporary file cannot be written", os.strerror(-result), "set TMPDIR")


def meta_object(samples_unavailable: str) -> dict[str, Any]:
    """The ``meta`` of a recording of this process by itself, which begins now; why it is without samples."""
    from pillion import __version__

    start_ns = time.monotonic_ns()
    return {
        "type": "meta",
        "version": __version__,
        "host": os.uname().nodename,
        "kernel": os.uname().release,
        "ncpu": os.cpu_count() or 1,
        "rate_hz": 0,
        "period_ns": 0,
        "wait_threshold_ns": 0,
        "transport": "rings",
        "start_ns": start_ns,
        "realtime_offset_ns": time.time_ns() - start_ns,
        "pids": [os.getpid()],
        "all": False,
        "collector": "self",
        "samples_unavailable": samples_unavailable,
    }


def end_object(reason: str) -> dict[str, Any]:
    return {"type": "end", "end_ns": time.monotonic_ns(), "reason": reason, "cost": {}}


def _set_up_region() -> None:
    result = lib.pln_setup()
    if result:
        raise Unavailable(f"no memory to share for this process: {os.strerror(-result)}", "`pillion doctor`")


def _process_object() -> dict[str, Any]:
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        started_ticks = int(file.read().rpartition(")")[2].split()[19])
    suspended_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    with open("/proc/self/comm", encoding="utf-8", errors="replace") as file:
        comm = file.read().strip()
    return {
        "type": "process",
        "pid": os.getpid(),
        "start_ns": started_ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK") - suspended_ns,
        "ppid": os.getppid(),
        "comm": comm,
        "cmdline": sys.orig_argv,
        "uid": os.getuid(),
        "python": sys.version.split()[0],
    }


def _loss(loss: Any) -> dict[str, Any]:
    kind = REGION_LOSSES.get(loss.kind, f"kind_{loss.kind}")
    return {"type": "loss", "kind": kind, "pid": os.getpid(), "tid": loss.tid, "count": loss.count}
