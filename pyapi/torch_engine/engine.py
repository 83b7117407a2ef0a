"""torch's own profiler engine, switched on and off: what it records is read by ``trace``.

Only a process that has imported torch comes here; Pillion itself never imports it.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import perf_counter_ns, time_ns
from typing import Any

_STILL_PAUSED_NS = (1 << 63) - 1


@dataclass
class TorchOptions:
    """What torch's engine shall collect; names and meanings are torch's.

    Attributes:
        activities: torch's ProfilerActivity members; None: those of the CPU and of ``use_device``.
        kind: a torch ProfilerState; None: KINETO.
        timeout_s: reading the result ends after it; None: it is read to its end.
    """

    use_device: str | None = None
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    experimental_config: Any = None
    activities: Iterable[Any] | None = None
    activity_filters: dict[Any, set[str]] = field(default_factory=dict)
    kind: Any = None
    trace_id: Callable[[], str] | None = None
    timeout_s: float | None = None


@dataclass
class ProfilerStats:
    """How long the parts of a profile took; the names are torch's."""

    profiling_window_duration_sec: float = 0
    number_of_events: int = 0
    profiler_prepare_call_duration_us: int = 0
    profiler_enable_call_duration_us: int = 0
    profiler_disable_call_duration_us: int = 0
    parse_kineto_call_duration_us: int = 0
    function_events_build_tree_call_duration_us: int = 0


def torch_autograd() -> Any:
    """``torch.autograd`` of a process that has imported torch whole; None otherwise."""
    torch = sys.modules.get("torch")
    autograd = sys.modules.get("torch.autograd")
    return autograd if torch is not None and hasattr(autograd, "_prepare_profiler") and hasattr(torch, "ops") else None


_enabled = False


def is_profiler_enabled() -> bool:
    """Whether a profile or an emitter of ranges runs, as torch's module says it."""
    return _enabled


def run_on_profiler_start() -> None:
    """A profile begins; torch, where it is, learns of it."""
    _set_enabled(True)


def run_on_profiler_stop() -> None:
    """A profile has ended."""
    _set_enabled(False)


def _set_enabled(enabled: bool) -> None:
    global _enabled
    _enabled = enabled
    torch_profiler = sys.modules.get("torch.autograd.profiler")
    if torch_profiler is not None and torch_autograd() is not None:
        (torch_profiler._run_on_profiler_start if enabled else torch_profiler._run_on_profiler_stop)()


def is_private_device(device: str | None) -> bool:
    """Whether it is torch's private backend, under whatever name that goes."""
    return device is not None and bool(sys.modules["torch"]._C._get_privateuse1_backend_name() == device)


def is_collection_stopped() -> bool:
    """Whether torch has stopped to collect what a device does, as where its buffers are full."""
    stopped = getattr(torch_autograd(), "_is_kineto_stopped", None)
    return bool(stopped is not None and stopped())


def default_trace_id() -> str:
    """32 upper-case hexadecimal digits."""
    return f"{uuid.uuid4().int:032X}"


class TorchEngine:
    """One recording by torch: ``prepare``, ``start``, ``stop``.

    Attributes:
        result: torch's result once stopped.
        trace_id: of the last ``prepare``.
        pauses_ns: from when until when, by the wall's clock, what the CPU did was not wanted.
    """

    def __init__(self, options: TorchOptions, stats: ProfilerStats) -> None:
        self._autograd = torch_autograd()
        self.options = options
        self.stats = stats
        self.result: Any = None
        self.trace_id = ""
        self.pauses_ns: list[list[int]] = []
        self._covers_all_threads = False
        self._activities = self._chosen_activities()
        self._started_ns = 0

    def prepare(self) -> None:
        """Warms up: after it, starting takes next to nothing."""
        self.trace_id = (self.options.trace_id or default_trace_id)()
        more = {"activity_filter": self.options.activity_filters} if self.options.activity_filters else {}
        begin_ns = perf_counter_ns()
        self._autograd._prepare_profiler(self.config(), self._activities, **more)
        self.stats.profiler_prepare_call_duration_us = _us_since(begin_ns)

    def start(self) -> None:
        begin_ns = perf_counter_ns()
        self._autograd._enable_profiler(self.config(), self._activities)
        self.stats.profiler_enable_call_duration_us = _us_since(begin_ns)
        self._started_ns = perf_counter_ns()

    def stop(self) -> None:
        self.synchronize()
        end_ns = perf_counter_ns()
        self.result = self._autograd._disable_profiler()
        self.stats.profiler_disable_call_duration_us = _us_since(end_ns)
        self.stats.profiling_window_duration_sec = (end_ns - self._started_ns) / 1e9

    def synchronize(self) -> None:
        """Waits until the device has done what was asked of it."""
        device = self.options.use_device and getattr(sys.modules["torch"], self.options.use_device, None)
        if device and hasattr(device, "synchronize"):
            device.synchronize()

    @property
    def uses_cupti(self) -> bool:
        """Whether torch asks CUPTI for what CUDA's devices do."""
        return any(activity.name == "CUDA" for activity in self._activities)

    def toggle(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Switches some activities off and on while it runs.

        Operators and ranges, Pillion's too, that begin while the CPU is off are left out afterwards: torch cannot
        switch the CPU on again where it covers all threads.
        """
        chosen, cpu = set(activities), self._autograd.ProfilerActivity.CPU
        if cpu in chosen:
            self._end_pause()
            if not enabled:
                self.pauses_ns.append([time_ns(), _STILL_PAUSED_NS])
        left = chosen - {cpu} if self._covers_all_threads else chosen
        if left:
            self._autograd._toggle_collection_dynamic(enabled, left)

    def _end_pause(self) -> None:
        if self.pauses_ns and self.pauses_ns[-1][1] == _STILL_PAUSED_NS:
            self.pauses_ns[-1][1] = time_ns()

    def config(self) -> Any:
        """torch's ProfilerConfig."""
        wants, autograd = self.options, self._autograd
        return autograd.ProfilerConfig(
            autograd.ProfilerState.KINETO if wants.kind is None else wants.kind,
            wants.record_shapes,
            wants.profile_memory,
            wants.with_stack,
            wants.with_flops,
            wants.with_modules,
            self._experimental(),
            self.trace_id,
        )

    def _experimental(self) -> Any:
        """The user's, else one that covers the threads that ran before the profile began, and writes stacks down."""
        if self.options.experimental_config is not None:
            return self.options.experimental_config
        make = sys.modules["torch"]._C._profiler._ExperimentalConfig
        # torch tells its allocations to the thread that began the profile only, and to none if it covers them all.
        wants = {"verbose": self.options.with_stack, "profile_all_threads": not self.options.profile_memory}
        try:
            config = make(**wants)
            self._covers_all_threads = wants["profile_all_threads"]
            return config
        except TypeError:  # older torch: threads that start within the block and autograd's only
            return make(verbose=self.options.with_stack)

    def _chosen_activities(self) -> set[Any]:
        kinds = self._autograd.ProfilerActivity
        if self.options.activities is not None:
            return set(self.options.activities)
        chosen = {kinds.CPU}
        device = getattr(kinds, (self.options.use_device or "").upper(), None)
        return chosen | {device} if device in self._autograd._supported_activities() else chosen


def _us_since(begin_ns: int) -> int:
    return (perf_counter_ns() - begin_ns) // 1000
