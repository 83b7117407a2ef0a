"""The tree of events that somebody made by hand: torch's rules, on objects."""

from __future__ import annotations

import numpy as np

from pillion.model.event import BACKWARD_SCOPE, FunctionEvent
from pillion.model.nesting import interval_parents
from pillion.model.tree import repeated


def build_tree(events: list[FunctionEvent]) -> list[FunctionEvent]:
    """Sets parents, children and the stacks of backward events; returns the events without those that merged.

    Raises:
        AssertionError: an event has a parent already.
    """
    nested = _nest(events)
    merged = _merge(events, nested)
    kept = [event for event, gone in zip(events, merged) if not gone]
    _set_backward_stacks(kept)
    return kept


def _nest(events: list[FunctionEvent]) -> list[int]:
    """Appends every event to its parent; returns for each the place of its parent, −1 for none."""
    places = [place for place, event in enumerate(events) if event._on_cpu and not event.is_async]
    threads: dict[tuple[int, int], int] = {}
    start = np.array([events[place].time_range.start for place in places], float)
    end = np.array([events[place].time_range.end for place in places], float)
    group = np.array(
        [threads.setdefault((events[place].thread, events[place].node_id), len(threads)) for place in places], np.int64
    )
    parents = [-1] * len(events)
    inner = interval_parents(start, end, group).tolist()
    # Children are appended by (start, −end), as they would be met on their thread.
    for index in np.lexsort((-end, start, group)).tolist():
        if inner[index] < 0:
            continue
        event, place = events[places[index]], places[inner[index]]
        if event.cpu_parent is not None:
            raise AssertionError(f"{event.key} has a CPU parent already")
        parents[places[index]] = place
        events[place].append_cpu_child(event)
        event.set_cpu_parent(events[place])
    return parents


def _merge(events: list[FunctionEvent], parents: list[int]) -> list[bool]:
    """Merges the only child of the same name into its parent; returns the mask of what merged."""
    names: dict[str, int] = {}
    name = np.array([names.setdefault(event.name, len(names)) for event in events], np.int64)
    merged: list[bool] = repeated(name, np.array(parents, np.int64)).tolist()
    by_depth = sorted((place for place, gone in enumerate(merged) if gone), key=lambda place: _depth(parents, place))
    for place in reversed(by_depth):  # the innermost first: what it had moves up step by step
        child, parent = events[place], events[parents[place]]
        parent.cpu_children = child.cpu_children
        parent.kernels = parent.kernels + child.kernels
        for grandchild in child.cpu_children:
            grandchild.cpu_parent = parent
    return merged


def _depth(parents: list[int], place: int) -> int:
    depth = 0
    while parents[place] >= 0:
        place, depth = parents[place], depth + 1
    return depth


def _set_backward_stacks(events: list[FunctionEvent]) -> None:
    stacks: dict[tuple[int, int], list[str]] = {}
    behind = [_backward(event) for event in events]
    for event, backward in zip(events, behind):
        if backward is None and event.stack is not None:
            stacks.setdefault((event.sequence_nr, event.thread), event.stack)
    for event, backward in zip(events, behind):
        if backward is not None:
            if backward.fwd_thread is None:
                raise AssertionError(f"{backward.key} runs backward, but its fwd_thread is None")
            event.stack = stacks.get((backward.sequence_nr, backward.fwd_thread), [])


def _backward(event: FunctionEvent | None) -> FunctionEvent | None:
    """The event itself or the nearest around it that runs backward."""
    while event is not None and event.scope != BACKWARD_SCOPE:
        event = event.cpu_parent
    return event
