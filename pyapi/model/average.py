"""FunctionEventAvg: the sums over the events of one key."""

from __future__ import annotations

from typing import Any

from pillion.model.event import FunctionEvent, device_type
from pillion.model.times import FormattedTimes

_SUMMED = (
    "count",
    "cpu_time_total",
    "self_cpu_time_total",
    "device_time_total",
    "self_device_time_total",
    "cpu_memory_usage",
    "self_cpu_memory_usage",
    "device_memory_usage",
    "self_device_memory_usage",
    "samples",
    "on_cpu_ns",
    "self_on_cpu_ns",
    "off_cpu_ns",
)
_COPIED = (
    "key",
    "node_id",
    "is_async",
    "is_remote",
    "overload_name",
    "input_shapes",
    "stack",
    "scope",
    "device_type",
    "is_legacy",
    "use_device",
    "is_user_annotation",
)


class FunctionEventAvg(FormattedTimes):
    """Sums over the events of one key, times in microseconds; the other attributes are the first event's.

    Beyond torch's it has ``on_cpu_ns``, ``self_on_cpu_ns``, ``off_cpu_ns`` and ``samples``, summed alike.
    """

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.node_id = 0
        self.is_async = False
        self.is_remote = False
        self.use_device: str | None = None
        self.cpu_time_total: float = 0
        self.device_time_total: float = 0
        self.self_cpu_time_total: float = 0
        self.self_device_time_total: float = 0
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: list[str] | None = None
        self.scope: int | None = None
        self.cpu_memory_usage = 0
        self.device_memory_usage = 0
        self.self_cpu_memory_usage = 0
        self.self_device_memory_usage = 0
        self._first: FunctionEvent | FunctionEventAvg | None = None
        self.device_type = device_type(0)
        self.is_legacy = False
        self.is_user_annotation = False
        self.flops: int | None = 0
        self.samples = 0
        self.on_cpu_ns = 0
        self.self_on_cpu_ns = 0
        self.off_cpu_ns = 0

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event or an average with the same key.

        Raises:
            AssertionError: it is neither, or its key differs.
        """
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)):
            raise AssertionError(f"{other!r} is neither a FunctionEvent nor a FunctionEventAvg")
        if self.key is None:
            self._begin(other)
        if other.key != self.key:
            raise AssertionError(f"the key {other.key!r} differs from {self.key!r}")
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.flops is not None:
            self.flops = (self.flops or 0) + other.flops
        return self

    __iadd__ = add

    def _begin(self, first: FunctionEvent | FunctionEventAvg) -> None:
        """Take over what is not summed."""
        for name in _COPIED:
            setattr(self, name, getattr(first, name))
        self._first = first

    @property
    def cpu_parent(self) -> FunctionEvent | None:
        """The first event's."""
        return None if self._first is None else self._first.cpu_parent

    @property
    def cpu_children(self) -> list[FunctionEvent] | None:
        """The first event's."""
        return None if self._first is None else self._first.cpu_children

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str} "
            f"{device}_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage}>"
        )
