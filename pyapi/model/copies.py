"""A list of events taken apart for a copy or a pickle, and put together again.

Events of columns leave their columns behind; what encloses what is kept as places of the list, so that a deep tree is
no deep recursion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pillion.model.column_event import ColumnEvent
from pillion.model.event import FunctionEvent

# An event, or an average, and the place of its parent in the list, −1 for none; None: it keeps what it has.
Part = tuple[Any, int | None]


def taken_apart(events: Sequence[Any]) -> list[Part]:
    """The parts of a list; only events of columns lose their relatives, and find them again by their places."""
    if not any(isinstance(event, ColumnEvent) for event in events):
        return [(event, None) for event in events]
    places = {id(event): place for place, event in enumerate(events)}
    return [
        (event, places.get(id(event.cpu_parent), -1) if isinstance(event, ColumnEvent) else None) for event in events
    ]


def put_together(parts: Sequence[Part]) -> list[Any]:
    """The events, with parents and children among themselves."""
    events = [event for event, _ in parts]
    for event, parent in parts:
        if parent is not None and parent >= 0:
            enclosing: FunctionEvent = events[parent]
            event.cpu_parent = enclosing
            enclosing.cpu_children.append(event)
    return events
