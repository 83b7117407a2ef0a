"""The cycles of a profile: which recording runs in which step, and what happens between two steps."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pillion._client import RecordRequest
from pillion._own_recording import AgentUse, OwnRecording
from pillion._record import record_function
from pillion._schedule import ProfilerAction
from pillion._step_tracker import PROFILER_STEP_NAME, KinetoStepTracker
from pillion._trace_metadata import TraceMetadata
from pillion.torch_engine.cuda_graphs import keep_cupti, uses_cuda_graphs
from pillion.torch_engine.distributed import distributed_info
from pillion.torch_engine.engine import TorchOptions, is_collection_stopped
from pillion.torch_engine.options import usable_options

if TYPE_CHECKING:
    from pillion.model import EventList

_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
# What a trace says of how it was made, as torch's does: attributes of a profile that are true.
_METADATA = ("profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops")


class Cycles(TraceMetadata):
    """Goes from step to step; ``profile`` says which actions and with which options."""

    enabled: bool
    acc_events: bool
    record_steps: bool
    use_device: str | None
    schedule: Callable[[int], Any]
    current_action: ProfilerAction
    on_trace_ready: Callable[[Any], Any] | None
    execution_trace_observer: Any
    custom_trace_id_callback: Callable[[], str] | None
    _request: RecordRequest
    _agent: AgentUse
    _torch: TorchOptions | None

    def __init__(self) -> None:
        super().__init__()
        self.step_num = 0
        self.has_cudagraphs = False
        self._scheduled = ProfilerAction.NONE  # what the schedule said of the step, whatever came of it
        self._recording: OwnRecording | None = None  # the cycle that runs or warms up
        self._last: OwnRecording | None = None  # the last cycle that ended
        self._earlier: list[EventList] = []
        self._step_range: record_function | None = None

    def prepare_trace(self) -> None:
        """Warms up a new cycle."""
        options = self._torch
        self.has_cudagraphs = uses_cuda_graphs()
        if options is not None:
            options.trace_id = self.custom_trace_id_callback
            options = usable_options(options)
        self._recording = OwnRecording(self._request, self._agent, options)
        self._recording.prepare()

    def start_trace(self) -> None:
        """Begins to record the cycle that was prepared.

        Raises:
            Unavailable: no agent although one is required, or somebody records this process already.
        """
        assert self._recording is not None, "prepare_trace() comes first"
        observer = self.execution_trace_observer
        if observer:
            observer.start()
        try:
            self._recording.start()
        except BaseException:
            if observer:
                observer.stop()
            raise
        for name in _METADATA:
            if getattr(self, name):
                self.add_metadata_json(name, "1")
        info = distributed_info()
        if info:
            self.add_metadata_json("distributedInfo", json.dumps(info, default=lambda number: number.item()))
        if self.has_cudagraphs and self._recording.torch is not None and keep_cupti():
            self.add_metadata_json("DISABLE_CUPTI_LAZY_REINIT", "1")
        self._adopt_metadata()

    def stop_trace(self) -> None:
        """Ends the cycle; its results are the profile's from now on."""
        self._stop(is_kept=True)

    def _stop(self, is_kept: bool) -> None:
        recording, self._recording = self._recording, None
        assert recording is not None, "prepare_trace() comes first"
        if self.execution_trace_observer:
            self.execution_trace_observer.stop()
        if is_kept:
            if self.acc_events and self._last is not None:
                self._earlier.insert(0, self._last.capture.function_events)
            self._last = recording
        failure = recording.stop()
        if failure:
            warnings.warn(f"pillion: {failure}; what was recorded before is kept", RuntimeWarning, stacklevel=4)

    def _next_action(self) -> ProfilerAction:
        """What is done in the step that begins; sets what the schedule says of it.

        Where torch says that a device's records were cut off (a full buffer), the rest of the cycle is not recorded.
        """
        before, scheduled_before = self.current_action, self._scheduled
        self._scheduled = own_action(self.schedule(self.step_num + 1)) if self.enabled else ProfilerAction.NONE
        if before is ProfilerAction.DEVICE_STOPPED:
            is_over = scheduled_before is ProfilerAction.RECORD_AND_SAVE or self._scheduled is ProfilerAction.NONE
            return self._scheduled if is_over else before
        may_stop = before in (ProfilerAction.WARMUP, ProfilerAction.RECORD)
        if may_stop and self.use_device and self._scheduled is not ProfilerAction.NONE and is_collection_stopped():
            warnings.warn(
                "Device profiling activity collection was stopped early "
                f"at step {self.step_num + 1}. Profiler schedule is proceeding "
                "until next cycle without actual profiler activity collection.",
                stacklevel=3,
            )
            return ProfilerAction.DEVICE_STOPPED
        return self._scheduled

    def _change(self, before: ProfilerAction, after: ProfilerAction) -> None:
        """Goes from what was done in one step to what is done in the next."""
        if before is ProfilerAction.WARMUP and after in (ProfilerAction.NONE, ProfilerAction.DEVICE_STOPPED):
            if after is ProfilerAction.NONE:
                warnings.warn("Incorrect schedule: WARMUP followed by NONE", stacklevel=3)
            self._end(is_ready=after is ProfilerAction.DEVICE_STOPPED)
        elif before is ProfilerAction.RECORD and after not in _RECORDS:
            if after is not ProfilerAction.DEVICE_STOPPED:
                warnings.warn(f"Incorrect schedule: RECORD followed by {after.name}", stacklevel=3)
            self._end(is_ready=after is ProfilerAction.DEVICE_STOPPED)
        elif before is ProfilerAction.RECORD_AND_SAVE:
            self._end(is_ready=True)
        if after in (ProfilerAction.NONE, ProfilerAction.DEVICE_STOPPED):
            return
        if self._recording is None:
            self.prepare_trace()
        if after in _RECORDS and self._recording is not None and not self._recording.is_started:
            self.start_trace()

    def _end(self, is_ready: bool) -> None:
        """Ends the cycle that runs or warms up, if any; one that recorded no step leaves the results as they are."""
        if self._recording is None:
            return
        is_whole = self._recording.is_started
        if not is_whole:
            self.start_trace()  # torch's engine only ends what began
        self._stop(is_kept=is_whole or is_ready)
        if is_ready and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _end_all(self) -> None:
        """The profile ends."""
        self._end(is_ready=self.current_action in _RECORDS)
        self.current_action = self._scheduled

    def _begin_step(self) -> None:
        if self.record_steps and self.enabled:
            self._step_range = record_function(f"{PROFILER_STEP_NAME}#{self.step_num}")
            self._step_range.__enter__()

    def _end_step(self) -> None:
        step_range, self._step_range = self._step_range, None
        if step_range is not None:
            step_range.__exit__(None, None, None)

    def _count_step(self) -> None:
        """Tells the daemon of Kineto, if one is used."""
        if os.environ.get("KINETO_USE_DAEMON"):
            KinetoStepTracker.increment_step(PROFILER_STEP_NAME)


def own_action(action: Any) -> ProfilerAction:
    """Our member for torch's, as torch's own ``schedule`` may have made it.

    Raises:
        ValueError: it is none that a schedule may answer with.
    """
    try:
        own = ProfilerAction[action.name]
    except (AttributeError, KeyError):
        raise ValueError(f"a schedule answers with a ProfilerAction, not with {action!r}") from None
    if own is ProfilerAction.DEVICE_STOPPED:
        raise ValueError(
            "ProfilerAction.DEVICE_STOPPED is set internally by the profiler and must not be returned by a "
            "user-provided schedule"
        )
    return own
