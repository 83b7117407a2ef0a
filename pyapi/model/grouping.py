"""Averages over columns: events of one key added up without an object for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion._tables import Array
from pillion.model.average import FunctionEventAvg
from pillion.model.column_event import ColumnEvents
from pillion.model.columns import EventColumns
from pillion.model.tree import float_sums, is_nothing, sums

_NARROW = 1 << 22  # so many different keys are counted in a table of them, more are sorted

# What an average sums, and the column.
_SUMMED = (
    ("cpu_time_total", "cpu_us"),
    ("self_cpu_time_total", "self_us"),
    ("device_time_total", "device_us"),
    ("self_device_time_total", "self_device_us"),
    ("cpu_memory_usage", "cpu_memory"),
    ("self_cpu_memory_usage", "self_cpu_memory"),
    ("device_memory_usage", "device_memory"),
    ("self_device_memory_usage", "self_device_memory"),
    ("flops", "flops"),
)


def averages(
    events: ColumnEvents, by_shapes: bool = False, stack_n: int = 0, by_overload: bool = False
) -> list[FunctionEventAvg]:
    """One average for each key, in the order of first occurrence."""
    columns = events.columns
    keys: list[Array] = [columns.node_id, columns.device_type, columns.is_legacy, columns.is_annotation]
    if by_overload:
        keys.append(columns.overload)
    if by_shapes:
        keys.append(columns.shapes)
    if stack_n > 0:
        keys.append(_stack_beginnings(columns, stack_n))
    groups, first = group(columns.shown, keys)
    made = _added(events, groups, first)
    for average, place in zip(made, first.tolist()):
        average.stack = columns.stack_texts[int(columns.stack[place])][:stack_n]
        average.input_shapes = columns.shape_values[int(columns.shapes[place])] if by_shapes else ""
        average.overload_name = columns.names[int(columns.overload[place])] if by_overload else ""
    return made


def total(events: ColumnEvents) -> FunctionEventAvg:
    """All events added up, with the key "Total"; what cannot be added is the last event's, as torch has it."""
    count = len(events.columns)
    if not count:
        average = FunctionEventAvg()
    else:
        (average,) = _added(events, np.zeros(count, np.int8), np.array([count - 1]))
    average.key = "Total"
    return average


def group(shown: Array, keys: list[Array]) -> tuple[Array, Array]:
    """The group of each event, numbered by first occurrence, and the place of each group's first event."""
    code, span = shown, int(shown.max(initial=0)) + 1
    for key in keys:
        if not len(key) or not (key != key[0]).any():
            continue
        low = int(key.min())
        width = int(key.max()) - low + 1
        if span * width >= 1 << 62:
            code = np.unique(code, return_inverse=True)[1]
            span = int(code.max()) + 1
        code = code.astype(np.int64) * width + (key.astype(np.int64) - low)
        span *= width
    if span > max(_NARROW, len(code)):
        code = np.unique(code, return_inverse=True)[1]
        span = int(code.max(initial=-1)) + 1
    first = np.full(span, -1)
    first[code[::-1]] = np.arange(len(code))[::-1]  # of equal indices the last assignment stays: the first event
    used = np.flatnonzero(first >= 0)
    used = used[np.argsort(first[used])]
    number = np.zeros(span, np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    return number[code], first[used]


def _stack_beginnings(columns: EventColumns, depth: int) -> Array:
    """A number for the innermost ``depth`` entries of each event's stack."""
    rows, inverse = np.unique(columns.stack, return_inverse=True)
    known: dict[tuple[str, ...], int] = {}
    numbers = [known.setdefault(tuple(columns.stack_texts[row][:depth]), len(known)) for row in rows.tolist()]
    return np.array(numbers, np.int32)[inverse]


def _added(events: ColumnEvents, groups: Array, first: Array) -> list[FunctionEventAvg]:
    columns, count = events.columns, len(first)
    values: dict[str, list[Any]] = {"count": np.bincount(groups, minlength=count).tolist()}
    for name, column in _SUMMED:
        of = getattr(columns, column)
        if is_nothing(of):
            continue  # the average begins with 0
        add = float_sums if column.endswith("_us") else sums
        values[name] = add(groups, of, count).tolist()
    if columns.is_sampled:
        values |= {name: sums(groups, of, count).tolist() for name, of in columns.sampled.items()}
    made = []
    for place, summed_values in zip(first.tolist(), zip(*values.values())):
        average = FunctionEventAvg()
        average._begin(events.event(place))
        vars(average).update(zip(values, summed_values))
        made.append(average)
    return made
