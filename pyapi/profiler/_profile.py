"""``profiler.profile``: the arguments, warnings and errors of torch.autograd.profiler.profile; the rest is shared."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pillion._own_recording import AgentUse, OwnRecording, claim, own_request, release
from pillion._results import Results
from pillion.torch_engine.engine import ProfilerStats, TorchOptions, default_trace_id, torch_autograd
from pillion.torch_engine.options import DEVICES, usable_device, with_events

if TYPE_CHECKING:
    from pillion._capture import Capture
    from pillion.model import EventList


class profile(Results):
    """Records what torch and ``record_function`` do in this process, all its threads, while the ``with`` block runs.

    Arguments, warnings and errors are torch's. With torch in the process its operators are there; without, the ranges.

    Args:
        enabled: False makes it a no-op with empty results.
        use_cuda: deprecated; means ``use_device="cuda"``.
        use_device: "cuda", "xpu", "mtia", "hpu" or torch's private backend: its times as well.
        record_shapes: the shapes of the operators' inputs.
        with_flops: their floating-point operations; implies ``record_shapes``.
        profile_memory: what they allocate.
        with_stack: where they were called; without an ``experimental_config`` torch is asked to write it down.
        with_modules: the modules, of TorchScript models.
        use_kineto, use_cpu, experimental_config, activity_filters: torch's.
        acc_events: keep the events of earlier cycles, after those of the last.
        custom_trace_id_callback: makes the trace's id.
        post_processing_timeout_s: reading what torch recorded ends after this time, in s; what was not read is counted
            in the table ``losses``. None: it is read to its end.
        agent: as in ``pillion.profile``; by default no agent is asked, so that tables are torch's to the letter.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: dict[Any, set[str]] | None = None,
        agent: AgentUse = "never",
    ) -> None:
        self.enabled = enabled
        if use_cuda and enabled:
            warnings.warn(
                "The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead.",
                FutureWarning,
                stacklevel=2,
            )
            use_device = "cuda"
        self.use_cpu, self.use_kineto = use_cpu, use_kineto
        if enabled and not use_cpu and not use_kineto:
            raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
        self.use_device = usable_device(use_device, stacklevel=3) if enabled else None
        self.use_cuda = self.use_device == "cuda"
        if enabled and not use_cpu and self.use_device is None:
            raise AssertionError("No activities specified for the profiler")
        if enabled and post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError("post_processing_timeout_s must be non-negative")
        self.record_shapes, self.with_flops = record_shapes or with_flops, with_flops
        self.profile_memory, self.with_stack, self.with_modules = profile_memory, with_stack, with_modules
        self.experimental_config = with_events(experimental_config)
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.activity_filters = activity_filters or {}
        self.entered = False
        self.trace_id = ""
        self._agent: AgentUse = agent
        self._request = own_request(99, 100, agent)
        self._pid = 0
        self._recording: OwnRecording | None = None
        self._is_running = False
        self._events: EventList | None = None
        self._earlier: EventList | None = None
        self.profiling_start_time_ns = 0
        self.profiling_end_time_ns = 0
        self.kineto_activities: set[Any] = set()
        self.profiler_kind: Any = None
        if enabled:
            self._torch_options()  # says at once what torch cannot do

    def __enter__(self) -> profile:
        """Starts recording.

        Raises:
            RuntimeError: this profile was used before, or another profile or an emitter runs in this process.
        """
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant: make a profile for each block")
        self._prepare_trace()
        self._start_trace()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops recording; swallows nothing."""
        if not self.enabled or self._pid != os.getpid() or self._recording is None:
            return
        self._is_running = False
        self.profiling_end_time_ns = time.perf_counter_ns()
        try:
            failure = self._recording.stop()
        finally:
            release(self._pid)
        if failure:
            warnings.warn(f"pillion: {failure}; what was recorded before is kept", RuntimeWarning, stacklevel=2)
        if self.acc_events:
            self._earlier, self._events = self._events, None
            self._events = self._read()
        else:
            self._events = None

    def _prepare_trace(self) -> None:
        """Warms up; a schedule calls it a step before ``_start_trace``."""
        claim(self)
        self._pid = os.getpid()
        try:
            self.trace_id = self.create_trace_id()
            self._recording = OwnRecording(self._request, self._agent, self._torch_options())
            self._recording.prepare()
        except BaseException:
            release(self._pid)
            raise
        self.entered = True

    def _start_trace(self) -> None:
        assert self._recording is not None, "_prepare_trace() comes first"
        try:
            self._recording.start()
        except BaseException:
            release(self._pid)
            raise
        self._is_running = True
        self.profiling_start_time_ns = time.perf_counter_ns()

    def default_trace_id(self) -> str:
        """32 upper-case hexadecimal digits, each time others."""
        return default_trace_id()

    def create_trace_id(self) -> str:
        """The custom callback's, else a default one."""
        return self.custom_trace_id_callback() if self.custom_trace_id_callback else default_trace_id()

    def config(self, create_trace_id: bool = False) -> Any:
        """torch's ProfilerConfig; None without torch."""
        if create_trace_id:
            self.trace_id = self.create_trace_id()
        recording = self._recording or OwnRecording(self._request, "never", self._torch_options())
        return recording.torch.config() if recording.torch is not None else None

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Switches some of torch's activities off and on while it runs."""
        if self._recording is not None and self._recording.torch is not None:
            self._recording.torch.toggle(enabled, activities)

    def export_chrome_trace(
        self,
        path: str | os.PathLike[str],
        metadata: dict[str, str] | None = None,
        use_python_export: bool = False,
    ) -> None:
        """Writes a trace for chrome://tracing and Perfetto, as often as wanted; gzipped where the path ends in ``.gz``.

        Args:
            metadata: members of the trace, each as JSON.
            use_python_export: accepted for torch's sake; there is one export.

        Raises:
            OSError: the file cannot be written.
            ValueError: some metadata is no JSON.
        """
        self.capture.meta["trace_metadata"] = {key: json.loads(value) for key, value in (metadata or {}).items()}
        self.capture.export_chrome_trace(path)

    @property
    def kineto_results(self) -> Any:
        """torch's raw result; None while there is none."""
        return self._recording.torch.result if self._recording is not None and self._recording.torch else None

    @property
    def _stats(self) -> ProfilerStats:
        """How long the parts of the profile took."""
        return self._recording.stats if self._recording is not None else ProfilerStats()

    @property
    def capture(self) -> Capture:
        """What was recorded, with all its tables.

        Raises:
            RuntimeError: the block has not ended yet.
        """
        if not self.enabled:
            if self._recording is None:
                self._recording = OwnRecording(self._request, "never", is_disabled=True)
                self._recording.start()
                self._recording.stop()
        elif self._recording is None or self._is_running or not self._recording.is_started:
            raise RuntimeError("profile() has not finished: its results are there when its block has ended")
        return self._recording.capture

    @property
    def function_events(self) -> EventList:
        """Every range and operator as a FunctionEvent; empty while the block runs."""
        if self._events is None:
            if self.enabled and (self._recording is None or self._is_running):
                from pillion.model import EventList

                return EventList([])
            self._events = self._read()
        return self._events

    def _finished_events(self) -> EventList:
        if self._is_running or (self.enabled and self._recording is None):
            self.capture  # noqa: B018 says what is missing
        return self.function_events

    def _read(self) -> EventList:
        from pillion.model import EventList, event_list

        capture = self.capture
        events = event_list(
            capture.columns,
            capture.meta["start_ns"],
            detail=capture.detail,
            profile_memory=self.profile_memory,
            with_flops=self.with_flops,
        )
        self._stats.number_of_events = len(events)
        earlier, self._earlier = self._earlier, None
        if not earlier:
            return events
        kept = EventList(
            [*events, *earlier],
            use_device=events._use_device,
            profile_memory=self.profile_memory,
            with_flops=self.with_flops,
        )
        kept._tree_built = True
        return kept

    def __repr__(self) -> str:
        if self.enabled and (self._recording is None or self._is_running):
            return "<unfinished pillion.profiler.profile>"
        return f"<pillion.profiler.profile of {len(self.function_events)} events>"

    def __str__(self) -> str:
        if self.enabled and (self._recording is None or self._is_running):
            return repr(self)
        return str(self.function_events)

    def _torch_options(self) -> TorchOptions | None:
        autograd = torch_autograd()
        if autograd is None:
            return None
        self.kineto_activities, self.profiler_kind = self._activities(autograd), self._kind(autograd)
        trace_id = self.trace_id  # not self: a recording that runs must not hold a profile that was dropped
        return TorchOptions(
            use_device=self.use_device,
            record_shapes=self.record_shapes,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_flops=self.with_flops,
            with_modules=self.with_modules,
            experimental_config=self.experimental_config,
            activities=self.kineto_activities,
            activity_filters=self.activity_filters,
            kind=self.profiler_kind,
            timeout_s=self.post_processing_timeout_s,
            trace_id=lambda: trace_id,
        )

    def _activities(self, autograd: Any) -> set[Any]:
        kinds, supported = autograd.ProfilerActivity, autograd._supported_activities()
        chosen = {kinds.CPU} if self.use_cpu else set()
        if self.use_device is None:
            return chosen
        name = self.use_device.upper() if self.use_device in DEVICES else "PrivateUse1"
        activity = getattr(kinds, name, None)
        if self.use_kineto and activity in supported:
            return chosen | {activity}
        if name in ("XPU", "MTIA", "HPU"):
            raise AssertionError(
                f"Legacy {name} profiling is not supported. Requires use_kineto=True on {name} devices."
            )
        if not self.use_cpu:
            raise AssertionError(f"Legacy {self.use_device} profiling requires use_cpu=True")
        return chosen

    def _kind(self, autograd: Any) -> Any:
        """How torch measures: without a tracer of the device it falls back to the device's own events."""
        states, supported = autograd.ProfilerState, autograd._supported_activities()
        if self.use_device == "cuda":
            traced = self.use_kineto and autograd.ProfilerActivity.CUDA in supported
            return states.KINETO if traced else states.KINETO_GPU_FALLBACK
        if self.use_device is None or self.use_device in DEVICES:
            return states.KINETO
        return states.KINETO_PRIVATEUSE1 if self.use_kineto else states.KINETO_PRIVATEUSE1_FALLBACK
