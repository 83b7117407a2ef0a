"""FunctionEvent: one range as an object, with the names and meanings of torch.autograd.profiler_util."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from pillion.model.units import format_time

USER_SCOPE = 7  # at::RecordScope::USER_SCOPE: what record_function emits


class DeviceType(enum.IntEnum):
    """Where an event ran, with torch's numbers."""

    CPU = 0
    CUDA = 1
    HPU = 7
    XPU = 12
    MTIA = 19
    PrivateUse1 = 20

    def __str__(self) -> str:
        return f"DeviceType.{self.name}"


class Interval:
    """A closed interval, microseconds from the start of the trace."""

    __slots__ = ("end", "start")

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Its length in microseconds."""
        return self.end - self.start


class Kernel(NamedTuple):
    """Work of a device that a CPU event launched; the duration is in microseconds."""

    name: str
    device: int
    duration: float


class FormattedTimes:
    """Times as text, and averages over ``count``. A subclass has the totals, in microseconds."""

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total: float
    self_device_time_total: float

    @property
    def cpu_time(self) -> float:
        """Average CPU time of a call, us."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Average device time of a call, us."""
        return self.device_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self) -> str:
        return format_time(self.cpu_time)

    @property
    def device_time_str(self) -> str:
        return format_time(self.device_time)

    @property
    def cpu_time_total_str(self) -> str:
        return format_time(self.cpu_time_total)

    @property
    def device_time_total_str(self) -> str:
        return format_time(self.device_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        return format_time(self.self_cpu_time_total)

    @property
    def self_device_time_total_str(self) -> str:
        return format_time(self.self_device_time_total)


class FunctionEvent(FormattedTimes):
    """One range. Times are microseconds from the start of the trace; see torch's class for the other attributes.

    Beyond torch's it has ``on_cpu_ns``, ``off_cpu_ns`` and ``samples``, totals with its children, and
    ``self_on_cpu_ns``: what samples and waits say about the range, 0 where none were recorded.
    """

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: Any = None,
        stack: list[str] | None = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: DeviceType = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: Any = None,
        kwinputs: Any = None,
        is_user_annotation: bool = False,
    ) -> None:
        self.id = id
        self.name = name
        self.thread = thread
        self.time_range = Interval(start_us, end_us)
        self.overload_name = overload_name
        self.fwd_thread = fwd_thread
        self.input_shapes = input_shapes
        self.stack = stack
        self.scope = scope
        self.use_device = use_device
        self.cpu_memory_usage = cpu_memory_usage
        self.device_memory_usage = device_memory_usage
        self.is_async = is_async
        self.is_remote = is_remote
        self.sequence_nr = sequence_nr
        self.node_id = node_id
        self.device_type = device_type
        self.device_index = device_index
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self.is_legacy = is_legacy
        self.flops = flops
        self.trace_name = trace_name
        self.concrete_inputs = concrete_inputs
        self.kwinputs = kwinputs
        self.is_user_annotation = is_user_annotation
        self.kernels: list[Kernel] = []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.count = 1
        self.samples = self.on_cpu_ns = self.self_on_cpu_ns = self.off_cpu_ns = 0

    @property
    def key(self) -> str:
        """What averages group by."""
        return self.name

    @property
    def _on_cpu(self) -> bool:
        return self.device_type == DeviceType.CPU

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Add work of a device, in microseconds."""
        _assert_on_cpu(self)
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Add a direct child; self times subtract it."""
        _assert_on_cpu(self, child)
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Set the range that directly encloses this one."""
        _assert_on_cpu(self, parent)
        self.cpu_parent = parent

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]  # computed here, stored in an average
        return self.time_range.elapsed_us() if self._on_cpu else 0

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        if self.is_async or not self._on_cpu:
            return 0
        # Siblings that were closed out of order overlap: their sum can exceed the parent.
        return max(0, self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children))

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        if self.is_async or not self.use_device:
            return 0
        if not self._on_cpu:
            return self.time_range.elapsed_us()
        launched = sum(kernel.duration for kernel in self.kernels)
        return launched if self.is_legacy else launched + sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:  # type: ignore[override]
        children = self.cpu_children if self._on_cpu else []
        return self.device_time_total - sum(child.device_time_total for child in children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes, without the children's."""
        if self.is_async or not self._on_cpu:
            return 0
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """Bytes, without the children's."""
        if self.is_async or not self._on_cpu:
            return 0
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        device = self.use_device
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} {device}_time={self.device_time_str} "
            f"name={self.name} thread={self.thread} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage} "
            f"is_async={self.is_async} is_remote={self.is_remote} seq_nr={self.sequence_nr} is_legacy={self.is_legacy}>"
        )


def _assert_on_cpu(*events: FunctionEvent) -> None:
    """Raises AssertionError, as torch does, for what is no event or ran on a device."""
    for event in events:
        if not isinstance(event, FunctionEvent) or event.device_type != DeviceType.CPU:
            raise AssertionError(f"{event!r} is no FunctionEvent of the CPU")
