"""``profile``: records this process while a block of code runs, or chosen steps of it, and answers as torch's does."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pillion._cycles import Cycles, own_action
from pillion._own_recording import AgentUse, OwnRecording, claim, own_request, release
from pillion._results import Results
from pillion._schedule import ProfilerAction, Schedule, always
from pillion._step_tracker import PROFILER_STEP_NAME, KinetoStepTracker
from pillion.torch_engine.engine import ProfilerStats
from pillion.torch_engine.options import (
    memory_profile,
    observer_of_environment,
    options_of_activities,
    with_events,
    write_memory_timeline,
)

if TYPE_CHECKING:
    from pillion._capture import Capture
    from pillion.model import EventList

_MEMORY_TIMELINE_WARNING = (
    "`export_memory_timeline` is deprecated and will be removed in a future version. Please use "
    "`torch.cuda.memory._record_memory_history` and `torch.cuda.memory._export_memory_snapshot` instead."
)


class profile(Results, Cycles):
    """Records this process, all its threads, while the ``with`` block runs.

    >>> with pillion.profile() as prof:
    ...     train_one_epoch()
    >>> print(prof.key_averages().table(sort_by="self_cpu_time_total"))

    With an agent there are samples and waits besides the ranges. Without one there are ranges only, which needs no
    privileges, and ``table()`` says so. Where the process has imported torch and an argument asks for detail
    (activities, shapes, memory, stacks, flops, modules), torch's engine adds its operators and devices. One profile at
    a time records a process; it may be in any thread of it. What it recorded is parsed when it is first asked for.
    A profile that was stopped can be started again; its results are then those of the later time.

    With a ``schedule`` only some steps are recorded: ``step()`` at the end of each step of the job begins the next, and
    each step is a range ``ProfilerStep#N``. Results are those of the last cycle, with ``acc_events`` those of all.

    Args:
        enabled: False makes it a no-op with empty results.
        activities: torch's ProfilerActivity members, or dicts of them to the names to keep.
        schedule: step number to ProfilerAction; see ``pillion.schedule``.
        on_trace_ready: called with the profile at the end of each cycle, and of a profile without a schedule.
        record_shapes, profile_memory, with_stack, with_flops, with_modules, experimental_config: torch's.
        execution_trace_observer: torch's; it starts and stops with each cycle, and is cleaned up at the end. None: the
            one that ENABLE_PYTORCH_EXECUTION_TRACE=1 in the environment asks for.
        acc_events: keep the events of earlier cycles, after those of the last.
        use_cuda: deprecated; adds the CUDA activity.
        custom_trace_id_callback: makes the trace's id, once a cycle.
        post_processing_timeout_s: reading what torch recorded ends after this time, in s; what was not read is counted
            in the table ``losses``. None: it is read to its end.
        rate_hz: samples per second and CPU; 0 for none.
        wait_threshold_us: waits shorter than this, in µs, are summed up only.
        agent: "auto" uses an agent that runs, "require" insists on it, "never" does without.

    Raises:
        UsageError: an argument is out of range.
        ValueError: an activity is given twice, or the timeout is negative.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Schedule | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        rate_hz: int = 99,
        wait_threshold_us: int = 100,
        agent: AgentUse = "auto",
    ) -> None:
        super().__init__()
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError("post_processing_timeout_s must be non-negative")
        if use_cuda is not None:
            warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2)
        self.enabled = enabled
        self.schedule = schedule or always
        self.on_trace_ready = on_trace_ready
        self.record_steps = schedule is not None
        self.record_shapes, self.profile_memory = record_shapes or with_flops, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.acc_events = acc_events
        self.experimental_config = with_events(experimental_config)
        self.execution_trace_observer = execution_trace_observer or observer_of_environment()
        self.post_processing_timeout_s = post_processing_timeout_s
        self.mem_tl: Any = None
        self.custom_trace_id_callback = custom_trace_id_callback
        self.current_action = self._scheduled = own_action(self.schedule(0)) if enabled else ProfilerAction.NONE
        self._agent: AgentUse = agent
        self._request = own_request(rate_hz, wait_threshold_us, agent)
        self._torch = options_of_activities(
            activities,
            use_cuda=use_cuda,
            record_shapes=self.record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=self.experimental_config,
        )
        if self._torch is not None:
            self._torch.timeout_s = post_processing_timeout_s
        self.activities: set[Any] = set(self._torch.activities or ()) if self._torch else set()
        self.activity_filters = self._torch.activity_filters if self._torch else {}
        self.use_device = self._torch.use_device if self._torch else None
        self._pid = 0  # of the process while it runs
        self._finished = False
        KinetoStepTracker.init_step_count(PROFILER_STEP_NAME)

    def __enter__(self) -> profile:
        """Starts recording: see ``start``."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops recording. Never raises for its own sake and never swallows: a recording cut short is a warning."""
        if self._pid and self._pid != os.getpid():
            return  # a fork inside the block: the recording, and its observer, are the parent's
        self.stop()
        KinetoStepTracker.erase_step_count(PROFILER_STEP_NAME)
        if self.execution_trace_observer:
            self.execution_trace_observer.cleanup()

    def start(self) -> None:
        """Starts recording, or waits for the steps that the schedule names.

        Raises:
            RuntimeError: this profile runs already, or another runs in this process.
            Unavailable: no agent although one is required, or somebody records this process already.
        """
        if self._pid == os.getpid():
            raise RuntimeError("this profile() was entered before, and has not ended")
        if self.enabled:
            claim(self)
        self._pid, self._finished, self._recording = os.getpid(), False, None
        try:
            self._enter()
        except BaseException:
            release(self._pid)
            self._pid = 0
            raise

    def stop(self) -> None:
        """Ends the recording. A profile that does not run has nothing to end."""
        if self._pid != os.getpid():
            return
        self._end_step()
        self._finished = True
        try:
            if self.enabled:
                self._end_all()
        finally:
            release(self._pid)
            self._pid, self._recording = 0, None

    def step(self) -> None:
        """Says that a step of the job has ended and the next begins.

        Raises:
            RuntimeError: the profile does not run.
            ValueError: the schedule answers with what is no ProfilerAction.
        """
        if not self._pid:
            raise RuntimeError("step() belongs between the beginning and the end of a profile")
        if self._pid != os.getpid():
            return  # a fork inside the block: the steps are the parent's
        self._end_step()
        following = self._next_action()
        before, self.current_action = self.current_action, following
        self.step_num += 1
        self._change(before, following)
        self._count_step()
        self._begin_step()

    def set_custom_trace_id_callback(self, callback: Callable[[], str] | None) -> None:
        """Makes the ids of the cycles to come."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The id of the current or the last cycle; None without torch's engine."""
        of = self._recording or self._last
        return of.torch.trace_id if of is not None and of.torch is not None else None

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Switches some of torch's activities off and on while it runs."""
        if self._recording is not None and self._recording.torch is not None:
            self._recording.torch.toggle(enable, activities)

    def __repr__(self) -> str:
        if not self._finished:
            return "<unfinished pillion.profile>"
        return f"<pillion.profile of {len(self.function_events)} events>"

    def __str__(self) -> str:
        return self.table() if self._finished else repr(self)

    @property
    def profiler(self) -> profile | None:
        """The results of a cycle, where torch's profile has them: itself; None before the first cycle."""
        return self if self._last is not None or self._recording is not None else None

    @property
    def kineto_results(self) -> Any:
        """torch's raw result of the last cycle; None while there is none."""
        return self._last.torch.result if self._last is not None and self._last.torch is not None else None

    def _stats(self) -> ProfilerStats | None:
        """How long the parts of the last cycle took."""
        of = self._last or self._recording
        return None if of is None else of.stats

    @property
    def capture(self) -> Capture:
        """What was recorded in the last cycle, with all its tables.

        Raises:
            RuntimeError: no cycle has ended yet.
        """
        if self._last is None:
            when = (
                "its schedule recorded no step" if self._finished else "its results are there when its block has ended"
            )
            raise RuntimeError(f"profile() has not finished: {when}")
        capture = self._last.capture
        capture.meta["trace_metadata"] = self.trace_metadata()
        return capture

    @property
    def function_events(self) -> EventList:
        """Every range and operator as a FunctionEvent; empty while the block runs."""
        if self._last is None:
            from pillion.model import EventList

            return EventList([])
        events = self.capture.function_events
        self._last.stats.number_of_events = len(events)
        events._profile_memory, events._with_flops = self.profile_memory, self.with_flops
        if self._earlier:
            from pillion.model import EventList

            kept = [event for earlier in self._earlier for event in earlier]
            return EventList(
                [*events, *kept],
                use_device=events._use_device,
                profile_memory=self.profile_memory,
                with_flops=self.with_flops,
            )
        return events

    def _finished_events(self) -> EventList:
        if self._last is None:
            self.capture  # noqa: B018 says what is missing
        return self.function_events

    def export_chrome_trace(self, path: str | os.PathLike[str], use_python_export: bool = False) -> None:
        """Writes a trace for chrome://tracing and Perfetto, as often as wanted; gzipped where the path ends in ``.gz``.

        Args:
            use_python_export: accepted for torch's sake; there is one export.

        Raises:
            OSError: the file cannot be written.
        """
        self.capture.export_chrome_trace(path)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Writes torch's memory timeline: see ``torch.profiler.profile.export_memory_timeline``; deprecated there.

        Args:
            device: as "cuda:1"; None: the first that was profiled, the first CUDA device, or the CPU.

        Raises:
            ValueError: the profile lacks shapes, memory or stacks.
            Unavailable: torch recorded nothing.
        """
        warnings.warn(_MEMORY_TIMELINE_WARNING, FutureWarning, stacklevel=2)
        self.mem_tl = write_memory_timeline(self._memory_profile(), path, device, self.use_device)

    def _memory_profile(self) -> Any:
        """torch's MemoryProfile of the last cycle, which programs read although it is private: see ``timeline``.

        Raises:
            ValueError: the profile lacks shapes, memory or stacks.
            Unavailable: torch recorded nothing.
        """
        needed = ("record_shapes", "profile_memory", "with_stack")
        missing = [f"{name}=True" for name in needed if not getattr(self, name)]
        if missing:
            raise ValueError(f"{', '.join(missing)} required for memory profiling.")
        return memory_profile(None if self._last is None else self._last.torch)

    def _enter(self) -> None:
        if not self.enabled:
            self._last = OwnRecording(self._request, self._agent, is_disabled=True)
            self._last.start()
            return
        self._change(ProfilerAction.NONE, self.current_action)
        self._begin_step()
