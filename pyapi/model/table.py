"""The table of an EventList, as torch prints it, with the columns that samples and waits add."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pillion.model.description import Description
from pillion.model.units import format_memory, format_share, format_time

_WIDTH = 12
_SPACING = "  "
_FLOPS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


class _Column(NamedTuple):
    header: str
    cell: Callable[[Any], object]
    width: int = _WIDTH
    align: str = ">"


class EventTable:
    """Decides on columns and formats rows; one object prints one table.

    Args:
        described: the events that decide which columns there are, and how wide.
        name_width, source_width, shapes_width: at most, None for as wide as the longest.
        time_unit: "s", "ms" or "us" for all times, None for what fits each.
        is_sampled: show what samples and waits say.
    """

    def __init__(
        self,
        described: Description,
        *,
        name_width: int | None,
        source_width: int | None,
        shapes_width: int | None,
        time_unit: str | None,
        profile_memory: bool,
        with_flops: bool,
        is_sampled: bool,
    ) -> None:
        self._of = described
        self._name_limit = name_width
        self._time_unit = time_unit
        self._source_width = 0
        self._columns = [
            *self._name_columns(),
            *self._cpu_columns(),
            *(self._device_columns() if described.has_device_time else []),
            *(self._memory_columns() if profile_memory else []),
            *self._count_columns(),
            *self._shape_columns(shapes_width),
            *(self._flops_columns() if with_flops else []),
            *self._source_columns(source_width),
            *(self._sampled_columns() if is_sampled else []),
        ]

    def text(self, shown: Iterable[Any], header: str | None, top_level_only: bool, notes: Iterable[str]) -> str:
        """The table with the rows ``shown``; every line ends with a newline."""
        separator = "".join("-" * column.width + _SPACING for column in self._columns)
        line = "=" * (len(separator) - len(_SPACING))
        lines = [line, header] if header is not None else []
        if top_level_only:
            lines += [line, "This report only display top-level ops statistics"]
        lines += [separator, self._row([column.header for column in self._columns]), separator]
        for event in shown:
            lines += self._event_lines(event)
        lines += [separator, f"Self CPU time total: {self._time(self._of.self_cpu_us)}"]
        if self._of.has_device_time:
            lines.append(f"Self {self._device_name} time total: {self._time(self._of.self_device_us)}")
        return "".join(f"{text}\n" for text in [*lines, *notes])

    def _row(self, cells: Sequence[object]) -> str:
        return "".join(f"{cell!s:{column.align}{column.width}}{_SPACING}" for column, cell in zip(self._columns, cells))

    def _event_lines(self, event: Any) -> list[str]:
        self._set_shares(event)
        lines = [self._row([column.cell(event) for column in self._columns])]
        if self._source_width:
            place = [column.header for column in self._columns].index("Source Location")
            for entry in [*(event.stack or [])[1:], ""]:
                cells = [""] * len(self._columns)
                cells[place] = _cut_left(entry, self._source_width)
                lines.append(self._row(cells))
        return lines

    def _set_shares(self, event: Any) -> None:
        """torch leaves the shares on the events that a table showed, so programs look for them there."""
        of = self._of
        event.self_cpu_percent = format_share(event.self_cpu_time_total, of.self_cpu_us)
        event.total_cpu_percent = 0 if event.is_async else format_share(event.cpu_time_total, of.self_cpu_us)
        if of.has_device_time:
            event.total_device_percent = format_share(event.self_device_time_total, of.self_device_us)

    def _time(self, time_us: float) -> str:
        return format_time(time_us, self._time_unit)

    @property
    def _device_name(self) -> str:
        return self._of.use_device.upper() if self._of.use_device else "None"

    def _cut(self, name: str) -> str:
        limit = self._name_limit
        return name if limit is None or len(name) < limit - 3 else f"{name[: limit - 3]}..."

    def _name_columns(self) -> list[_Column]:
        width = self._of.name_width + 4
        width = width if self._name_limit is None else min(width, self._name_limit)
        columns = [_Column("Name", lambda event: self._cut(event.key), width)]
        if self._of.has_overloads:
            columns.append(_Column("Overload Name", lambda event: self._cut(event.overload_name or ""), width))
        return columns

    def _cpu_columns(self) -> list[_Column]:
        return [
            _Column("Self CPU %", lambda event: event.self_cpu_percent),
            _Column("Self CPU", lambda event: self._time(event.self_cpu_time_total)),
            _Column("CPU total %", lambda event: event.total_cpu_percent),
            _Column("CPU total", lambda event: self._time(event.cpu_time_total)),
            _Column("CPU time avg", lambda event: self._time(event.cpu_time)),
        ]

    def _device_columns(self) -> list[_Column]:
        name = self._device_name
        return [
            _Column(f"Self {name}", lambda event: self._time(event.self_device_time_total)),
            _Column(f"Self {name} %", lambda event: event.total_device_percent),
            _Column(f"{name} total", lambda event: self._time(event.device_time_total)),
            _Column(f"{name} time avg", lambda event: self._time(event.device_time)),
        ]

    def _memory_columns(self) -> list[_Column]:
        columns = [
            _Column("CPU Mem", lambda event: format_memory(event.cpu_memory_usage)),
            _Column("Self CPU Mem", lambda event: format_memory(event.self_cpu_memory_usage)),
        ]
        if self._of.use_device and self._of.has_device_memory:
            name = self._device_name
            columns.append(_Column(f"{name} Mem", lambda event: format_memory(event.device_memory_usage)))
            columns.append(_Column(f"Self {name} Mem", lambda event: format_memory(event.self_device_memory_usage)))
        return columns

    def _count_columns(self) -> list[_Column]:
        columns = [_Column("# of Calls", lambda event: event.count)]
        if self._of.has_nodes:
            columns.append(_Column("Node ID", lambda event: event.node_id))
        return columns

    def _shape_columns(self, limit: int | None) -> list[_Column]:
        if not self._of.shapes_width:
            return []
        width = self._of.shapes_width + 4
        width = width if limit is None else min(width, limit)
        return [_Column("Input Shapes", lambda event: str(event.input_shapes)[:width], width)]

    def _flops_columns(self) -> list[_Column]:
        if not self._of.least_flops:
            return []
        power = max(0, min(int(math.log10(self._of.least_flops) / 3), len(_FLOPS) - 1))

        def cell(event: Any) -> str:
            return f"{event.flops / 1000**power:8.3f}" if event.flops and event.flops > 0 else "--"

        return [_Column(f"Total {_FLOPS[power]}", cell)]

    def _source_columns(self, limit: int | None) -> list[_Column]:
        longest = self._of.stack_width
        if not longest:
            return []
        width = self._source_width = longest + 4 if limit is None else min(longest + 4, limit)
        return [_Column("Source Location", lambda event: _cut_left((event.stack or [""])[0], width), width, "<")]

    def _sampled_columns(self) -> list[_Column]:
        return [
            _Column("Self On-CPU", lambda event: self._time(event.self_on_cpu_ns / 1e3)),
            _Column("On-CPU", lambda event: self._time(event.on_cpu_ns / 1e3)),
            _Column("Off-CPU", lambda event: self._time(event.off_cpu_ns / 1e3)),
        ]


def _cut_left(path: str, width: int) -> str:
    if len(path) <= width:
        return path
    kept = path[len(path) - width :]
    return "..." + kept[3:] if len(kept) > 3 else kept
