"""``profile``: records this process while a block of code runs, and answers as torch.autograd.profiler.profile does."""

from __future__ import annotations

import os
import tempfile
import warnings
import weakref
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal

from pillion._client import RecordRequest
from pillion._errors import PillionError, UsageError

if TYPE_CHECKING:
    from pillion._capture import Capture
    from pillion._collector import AgentCollector, OwnCollector
    from pillion.model import EventList, FunctionEventAvg

AgentUse = Literal["auto", "require", "never"]

# The profile that runs in each process. A fork copies it, so it is looked up by pid; setdefault needs no lock, which a
# fork could leave locked.
_running: dict[int, profile] = {}


class profile:
    """Records this process, all its threads, while the ``with`` block runs.

    >>> with pillion.profile() as prof:
    ...     train_one_epoch()
    >>> print(prof.key_averages().table(sort_by="self_cpu_time_total"))

    With an agent there are samples and waits besides the ranges. Without one there are ranges only, which needs no
    privileges, and ``table()`` says so. One profile at a time records a process; it may be in any thread of it.
    What it recorded is parsed when it is first asked for.

    Args:
        enabled: False makes it a no-op with empty results.
        rate_hz: samples per second and CPU; 0 for none.
        wait_threshold_us: waits shorter than this, in µs, are summed up only.
        agent: "auto" uses an agent that runs, "require" insists on it, "never" does without.

    Raises:
        UsageError: an argument is out of range.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        rate_hz: int = 99,
        wait_threshold_us: int = 100,
        agent: AgentUse = "auto",
    ) -> None:
        if agent not in ("auto", "require", "never"):
            raise UsageError("profile()", f"agent={agent!r}", 'agent is "auto", "require" or "never"')
        if rate_hz < 0 or wait_threshold_us < 0:
            raise UsageError("profile()", "rate_hz or wait_threshold_us is negative", "0 switches either off")
        self.enabled = enabled
        self._agent = agent
        self._request = RecordRequest(own_process=True, rate_hz=rate_hz, wait_threshold_ns=wait_threshold_us * 1000)
        self._pid = 0
        self._spool: IO[bytes] | None = None
        self._collector: AgentCollector | OwnCollector | None = None
        self._finished = False
        self._capture: Capture | None = None

    def __enter__(self) -> profile:
        """Starts recording.

        Raises:
            RuntimeError: this profile was used before, or another runs in this process.
            Unavailable: no agent although one is required, or somebody records this process already.
        """
        if self._pid:
            raise RuntimeError("this profile() was entered before; make a new one for every block")
        if self.enabled and _running.setdefault(os.getpid(), self) is not self:
            raise RuntimeError("another profile() runs in this process; it records every thread, so one is enough")
        self._pid = os.getpid()
        try:
            self._start()
        except BaseException:
            _running.pop(self._pid, None)
            self._pid = 0
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops recording. Never raises for its own sake and never swallows: a recording cut short is a warning."""
        if self._pid != os.getpid():
            return  # a fork inside the block: the recording is the parent's
        self._finished = True
        if self._collector is None:
            return
        try:
            failure = self._collector.stop()
        finally:
            self._collector = None
            _running.pop(self._pid, None)
        if failure:
            warnings.warn(f"pillion: {failure}; what was recorded before is kept", RuntimeWarning, stacklevel=2)

    def __repr__(self) -> str:
        if not self._finished:
            return "<unfinished pillion.profile>"
        return f"<pillion.profile of process {self._pid}>"

    def __str__(self) -> str:
        return self.table() if self._finished else repr(self)

    @property
    def capture(self) -> Capture:
        """What was recorded, with all its tables.

        Raises:
            RuntimeError: the block has not ended yet.
        """
        if self._capture is None:
            if not self._finished or self._spool is None:
                raise RuntimeError("profile() has not finished: its results are there when its block has ended")
            from pillion._capture import read_spool_capture

            self._capture = read_spool_capture(self._spool)
            self._spool.close()
        return self._capture

    @property
    def function_events(self) -> EventList:
        """Every range as a FunctionEvent; empty while the block runs."""
        if not self._finished:
            from pillion.model import EventList

            return EventList([])
        return self.capture.function_events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Ranges added up by name."""
        return self.capture.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def table(self, **options: Any) -> str:
        """The ranges as text, in the order of torch's table; ``options`` are those of ``EventList.table``."""
        return self.capture.function_events.table(**options)

    def total_average(self) -> FunctionEventAvg:
        """All ranges added up."""
        return self.capture.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """The self CPU times of all ranges added up, in µs."""
        return self.capture.function_events.self_cpu_time_total

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace for chrome://tracing and Perfetto, as often as wanted.

        Raises:
            OSError: the file cannot be written.
        """
        self.capture.export_chrome_trace(path)

    def _start(self) -> None:
        from pillion import _collector

        if not self.enabled:
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
