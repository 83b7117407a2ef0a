"""What started the work of a device: by the numbers that its runtime gives to calls and to what they start."""

from __future__ import annotations

import numpy as np

from pillion._tables import Array, Columns, column


def find_first(keys: Array, wanted: Array) -> Array:
    """For each wanted number the first place in keys that has it, −1 for none; 0 is no number."""
    if not len(keys):
        return np.full(len(wanted), -1)
    # A driver counts up, so the calls of one thread come in order.
    order = None if (keys[1:] >= keys[:-1]).all() else np.argsort(keys, kind="stable")
    ascending = keys if order is None else keys[order]
    place = np.minimum(np.searchsorted(ascending, wanted), len(keys) - 1)
    found = (ascending[place] == wanted) & (wanted != 0)
    return np.where(found, place if order is None else order[place], -1)


def is_call(events: Columns) -> Array:
    """Mask of the calls into a device's runtime or driver."""
    category = column("events", events, "category")
    texts = [text for text in category.texts if text.endswith(("_runtime", "_driver"))]
    mask: Array = category.isin(*texts)
    return mask


def launches(events: Columns, correlation: Array, pid: Array | None = None) -> Array:
    """The rows of the calls with these correlation numbers, −1 for none.

    Of a call and the call in it that share a number it is the outer one: events come by their start.

    Args:
        pid: of the process that each number belongs to, where every process has numbers of its own.
    """
    calls = np.flatnonzero(is_call(events) & (column("events", events, "correlation") != 0))
    if not len(calls):
        return np.full(len(correlation), -1)
    keys, wanted = column("events", events, "correlation")[calls], correlation
    if pid is not None:
        keys = _of_process(events["pid"][calls], keys)
        wanted = np.where(correlation != 0, _of_process(pid, correlation), 0)
    found = find_first(keys, wanted)
    return np.where(found >= 0, calls[found], -1)


def _of_process(pid: Array, number: Array) -> Array:
    """Numbers of several processes in one: correlation numbers have 32 bits."""
    packed: Array = (pid.astype(np.int64) << 32) | (number & 0xFFFF_FFFF)
    return packed


def causes(events: Columns, launch: Array, external_id: Array | None = None) -> Array:
    """The operator or range that caused each activity, the launch itself where there is none, −1 for nothing known.

    Args:
        launch: the call that started it, −1 for none.
        external_id: of the operator, as its profiler says; 0 for none.
    """
    calls = is_call(events)
    cause = launch.copy()
    climbing = np.flatnonzero(launch >= 0)
    while len(climbing := climbing[calls[cause[climbing]]]):
        cause[climbing] = events["parent"][cause[climbing]]  # parents come before their children, so this ends
        climbing = climbing[cause[climbing] >= 0]
    cause = np.where(cause >= 0, cause, launch)
    operators = np.flatnonzero(~calls & (column("events", events, "external_id") != 0))
    if external_id is None or not len(operators):
        return cause
    named = find_first(column("events", events, "external_id")[operators], external_id)
    return np.where(named >= 0, operators[named], cause)
