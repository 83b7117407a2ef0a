"""What a table must know of all its events before it prints the first row: its columns, their widths, the wholes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pillion._tables import Array
from pillion.model.columns import EventColumns


@dataclass(frozen=True)
class Description:
    """All events of a table.

    Attributes:
        use_device: of the first event.
        self_cpu_us, self_device_us: the wholes of which self times are shares.
        has_device_time, has_device_memory, has_nodes, has_overloads: which columns are shown.
        name_width: of the longest name.
        shapes_width, stack_width: of the longest, 0 where no event has any.
        least_flops: of those that have any; 0 for none.
    """

    use_device: str | None
    self_cpu_us: float
    self_device_us: float
    has_device_time: bool
    has_device_memory: bool
    has_nodes: bool
    has_overloads: bool
    name_width: int
    shapes_width: int
    stack_width: int
    least_flops: int


def describe_objects(events: Sequence[Any]) -> Description:
    """FunctionEvents or FunctionEventAvgs; there is at least one."""
    flops = [event.flops for event in events if event.flops and event.flops > 0]
    has_shapes = any(event.input_shapes for event in events)
    return Description(
        use_device=events[0].use_device,
        self_cpu_us=sum(event.self_cpu_time_total for event in events),
        self_device_us=sum(event.self_device_time_total for event in events if _counts_device_time(event)),
        has_device_time=any(event.self_device_time_total > 0 for event in events),
        has_device_memory=any(event.self_device_memory_usage > 0 for event in events),
        has_nodes=any(event.node_id != -1 for event in events),
        has_overloads=any(event.overload_name for event in events),
        name_width=max(len(event.key) for event in events),
        shapes_width=max(len(str(event.input_shapes)) for event in events) if has_shapes else 0,
        stack_width=max((len(entry) for event in events for entry in event.stack or ()), default=0),
        least_flops=min(flops, default=0),
    )


def describe_columns(columns: EventColumns) -> Description:
    """A million events, of which at least one; texts are looked at once each."""
    own_device = columns.self_device_us
    counted = np.where(columns.on_cpu, columns.is_legacy, ~columns.is_annotation)
    flops = columns.flops
    names, shapes = columns.names, _used(columns.shapes)
    return Description(
        use_device=columns.use_device,
        self_cpu_us=columns.self_cpu_us,
        self_device_us=float(own_device[counted].sum()),
        has_device_time=bool(columns.use_device) and bool(np.any(own_device > 0)),
        has_device_memory=bool(np.any(columns.self_device_memory > 0)),
        has_nodes=bool(np.any(columns.node_id != -1)),
        has_overloads=bool(columns.overload.any()),
        name_width=max(len(names[name]) for name in _used(columns.shown)),
        shapes_width=max(len(str(columns.shape_values[row])) for row in shapes) if any(shapes) else 0,
        stack_width=max((len(entry) for row in _used(columns.stack) for entry in columns.stack_texts[row]), default=0),
        least_flops=int(flops[flops > 0].min()) if flops.any() else 0,
    )


def _used(codes: Array) -> list[int]:
    """The different codes, ascending. A column that a capture lacks is one value, repeated."""
    used: list[int] = np.unique(codes[:1] if codes.strides == (0,) else codes).tolist()
    return used


def _counts_device_time(event: Any) -> bool:
    """Legacy events carry their kernels; otherwise device events do, except annotations of the device's time line."""
    if int(event.device_type) == 0:
        return bool(event.is_legacy)
    return not event.is_user_annotation
