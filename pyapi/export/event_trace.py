"""What an EventList itself exports: torch's older trace, a bare array, and stacks with a metric."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from pillion.export._file import text_output
from pillion.model.event import FunctionEvent

_CLEAN = str.maketrans(" ;\t\n", "____")


def write_event_trace(events: Iterable[FunctionEvent], path: str | os.PathLike[str]) -> None:
    """An array of X events, microseconds from the start of the trace. Events without a trace_name are left out.

    Raises:
        OSError: the file cannot be written.
    """
    with text_output(path) as file:
        separator = "["
        for event in events:
            if event.trace_name is None:
                continue
            thread = f" node_id:{event.node_id}, thread_id:{event.thread} " if event.is_remote else event.thread
            slice_ = {
                "name": event.trace_name,
                "ph": "X",
                "ts": event.time_range.start,
                "dur": event.time_range.elapsed_us(),
                "tid": thread,
                "pid": "CPU functions",
                "args": {},
            }
            file.write(separator + json.dumps(slice_))
            separator = ",\n"
        file.write("[]\n" if separator == "[" else "]\n")


def write_event_stacks(events: Iterable[FunctionEvent], path: str | os.PathLike[str], attribute: str) -> None:
    """A line for each event with a stack and a positive value: the stack root first, then whole microseconds.

    Raises:
        OSError: the file cannot be written.
    """
    with text_output(path) as file:
        for event in events:
            value = int(getattr(event, attribute))
            if event.stack and value > 0:
                file.write(f"{';'.join(entry.translate(_CLEAN) for entry in reversed(event.stack))} {value}\n")
