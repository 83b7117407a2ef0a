"""FunctionEvent: one range or operator as an object, with the names and meanings of torch.autograd.profiler_util."""

from __future__ import annotations

import enum
import functools
import sys
from typing import Any, NamedTuple

from pillion.model.event_metadata import EventMetadata, event_metadata
from pillion.model.times import FormattedTimes, renamed

USER_SCOPE = 7  # at::RecordScope::USER_SCOPE: what record_function emits
BACKWARD_SCOPE = 1  # at::RecordScope::BACKWARD_FUNCTION


class DeviceType(enum.IntEnum):
    """Where an event ran, with torch's numbers."""

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20

    def __str__(self) -> str:
        return f"DeviceType.{self.name}"

    def __eq__(self, other: object) -> bool:
        """Equal to torch's member of the same number, which itself compares by type."""
        return int(self) == int(other) if type(other).__name__ == "DeviceType" else super().__eq__(other)  # type: ignore[call-overload]

    def __ne__(self, other: object) -> bool:
        """An int's own says that torch's member of the same number is another."""
        return not self == other

    __hash__ = enum.IntEnum.__hash__


def device_types() -> Any:
    """The enum of the devices of events: torch's own where torch is loaded, as its members compare by type."""
    torch_autograd = sys.modules.get("torch.autograd")
    return DeviceType if torch_autograd is None else getattr(torch_autograd, "DeviceType", DeviceType)


@functools.cache
def _members(types: Any) -> dict[int, Any]:
    return {int(member): member for member in types.__members__.values()}


def device_type(number: int) -> Any:
    """The member of ``device_types()`` with this number."""
    return _members(device_types()).get(number, DeviceType.CPU)


_member = device_type  # an argument has its name


class Interval:
    """A closed interval, microseconds from the start of the trace."""

    __slots__ = ("end", "start")

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Its length in microseconds."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval({self.start}, {self.end})"


class Kernel(NamedTuple):
    """Work of a device that a CPU event launched; the duration is in microseconds."""

    name: str
    device: int
    duration: float


class FunctionEvent(FormattedTimes):
    """One range or operator. Times are microseconds from the start of the trace; names and meanings are torch's.

    Beyond torch's it has ``on_cpu_ns``, ``off_cpu_ns`` and ``samples``, totals with its children, and
    ``self_on_cpu_ns``: what samples and waits say about the range, 0 where none were recorded.
    """

    id: int
    name: str
    thread: int
    time_range: Interval
    overload_name: str | None
    fwd_thread: int | None
    input_shapes: Any
    stack: list[str] | None
    scope: int
    use_device: str | None
    cpu_memory_usage: int
    device_memory_usage: int
    is_async: bool
    is_remote: bool
    sequence_nr: int
    node_id: int
    device_type: Any
    device_index: int
    device_resource_id: int
    is_legacy: bool
    flops: int | None
    trace_name: str | None
    is_user_annotation: bool
    is_python_function: bool
    activity_type: str | None
    kernels: list[Kernel]
    cpu_children: list[FunctionEvent]
    cpu_parent: FunctionEvent | None
    event_metadata: EventMetadata | None

    cuda_time_total = renamed("cuda_time_total", "device_time_total")
    self_cuda_time_total = renamed(
        "self_cuda_time_total", "self_device_time_total", ". Use `self_device_time_total` instead."
    )
    self_cuda_memory_usage = renamed(
        "self_cuda_memory_usage", "self_device_memory_usage", ". Use `self_device_memory_usage` instead."
    )
    metadata_json = renamed("metadata_json", "_metadata_json", advice=". Use `event_metadata` instead.")

    def __init__(  # every argument that is not named below becomes the attribute of its name
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
        device_type: Any = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: Any = None,
        kwinputs: Any = None,
        is_user_annotation: bool = False,
        is_python_function: bool = False,
        activity_type: str | None = None,
        metadata_json: str | None = None,
        flow_id: int | None = None,
        flow_type: int | None = None,
        flow_start: bool | None = None,
        external_id: int = 0,
        linked_correlation_id: int = 0,
        extra_meta: dict[str, str] | None = None,
        structured_input_shapes: Any = None,
        structured_input_strides: Any = None,
        input_dtypes: list[str] | None = None,
        python_id: int = -1,
        python_parent_id: int = -1,
        python_module_id: int = -1,
    ) -> None:
        given = dict(locals())
        for taken_apart in ("self", "start_us", "end_us", "device_resource_id", "metadata_json", "extra_meta"):
            del given[taken_apart]
        self.__dict__.update(given)
        self.device_type = _member(int(device_type))
        self.time_range = Interval(start_us, end_us)
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self._metadata_json = metadata_json
        self.event_metadata = event_metadata(extra_meta)
        self.kernels = []
        self.cpu_children = []
        self.cpu_parent = None
        self.count = 1
        self.samples = self.on_cpu_ns = self.self_on_cpu_ns = self.off_cpu_ns = 0

    @property
    def key(self) -> str:
        """What averages group by."""
        return self.name

    @property
    def _on_cpu(self) -> bool:
        return int(self.device_type) == DeviceType.CPU

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
        children = self.cpu_children if self._on_cpu and not self.is_async else []
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
        if not isinstance(event, FunctionEvent) or not event._on_cpu:
            raise AssertionError(f"{event!r} is no FunctionEvent of the CPU")
