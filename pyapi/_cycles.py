"""The cycles of a profile: which recording runs in which step, and what happens between two steps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pillion._client import RecordRequest
from pillion._own_recording import AgentUse, OwnRecording
from pillion._record import record_function
from pillion._schedule import ProfilerAction
from pillion._torch_engine import TorchOptions
from pillion._trace_metadata import TraceMetadata

if TYPE_CHECKING:
    from pillion.model import EventList

RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class Cycles(TraceMetadata):
    """Goes from step to step; ``profile`` says which actions and with which options."""

    enabled: bool
    acc_events: bool
    record_steps: bool
    on_trace_ready: Callable[[Any], Any] | None
    execution_trace_observer: Any
    custom_trace_id_callback: Callable[[], str] | None
    _request: RecordRequest
    _agent: AgentUse
    _torch: TorchOptions | None

    def __init__(self) -> None:
        super().__init__()
        self.step_num = 0
        self._recording: OwnRecording | None = None  # the cycle that runs or warms up
        self._last: OwnRecording | None = None  # the last cycle that ended
        self._earlier: list[EventList] = []
        self._step_range: record_function | None = None

    def _change(self, before: ProfilerAction, after: ProfilerAction) -> None:
        """Goes from what was done in one step to what is done in the next."""
        if before in RECORDS and (before is ProfilerAction.RECORD_AND_SAVE or after not in RECORDS):
            if before is ProfilerAction.RECORD:
                warnings.warn(f"the schedule goes from RECORD to {after.name}, without RECORD_AND_SAVE", stacklevel=3)
            self._end_cycle(is_ready=before is ProfilerAction.RECORD_AND_SAVE)
        if before is ProfilerAction.WARMUP and after is ProfilerAction.NONE:
            warnings.warn("the schedule goes from WARMUP to NONE", stacklevel=3)
        if after is not ProfilerAction.NONE and self._recording is None:
            self._new_cycle()
        if after in RECORDS and self._recording is not None and not self._recording.is_started:
            self._recording.start()
            if self.execution_trace_observer is not None:
                self.execution_trace_observer.start()

    def _new_cycle(self) -> None:
        options = self._torch
        if options is not None:
            options.trace_id = self.custom_trace_id_callback
        self._recording = OwnRecording(self._request, self._agent, options)
        self._recording.prepare()
        self._adopt_metadata()

    def _end_cycle(self, is_ready: bool) -> None:
        recording, self._recording = self._recording, None
        if recording is None:
            return
        if self.acc_events and self._last is not None:
            self._earlier.insert(0, self._last.capture.function_events)
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.stop()
        self._last = recording
        failure = recording.stop()
        if failure:
            warnings.warn(f"pillion: {failure}; what was recorded before is kept", RuntimeWarning, stacklevel=4)
        if is_ready and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _begin_step(self) -> None:
        if self.record_steps and self.enabled:
            self._step_range = record_function(f"ProfilerStep#{self.step_num}")
            self._step_range.__enter__()

    def _end_step(self) -> None:
        step_range, self._step_range = self._step_range, None
        if step_range is not None:
            step_range.__exit__(None, None, None)


def own_action(action: Any) -> ProfilerAction:
    """Our member for torch's, as torch's own ``schedule`` may have made it."""
    try:
        return ProfilerAction[action.name]
    except (AttributeError, KeyError):
        raise ValueError(f"a schedule answers with a ProfilerAction, not with {action!r}") from None
