"""What an EventList itself exports: torch's older trace, a bare array, and stacks with a metric."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from pillion.export._file import text_output
from pillion.model.event import FunctionEvent

_CLEAN = str.maketrans(" ;\t\n", "____")


def write_event_trace(
    events: Iterable[FunctionEvent], path: str | os.PathLike[str], use_device: str | None = None
) -> None:
    """An array of X events, microseconds from the start of the trace, and the begin of a flow (s) for each kernel.

    Events without a trace_name are left out.

    Args:
        use_device: of the kernels; None stands for "cuda", as in torch.

    Raises:
        OSError: the file cannot be written.
    """
    with text_output(path) as file:
        separator, flows, category = "[", 0, f"cpu_to_{use_device or 'cuda'}"
        for event in events:
            if event.trace_name is None:
                continue
            thread = f" node_id:{event.node_id}, thread_id:{event.thread} " if event.is_remote else event.thread
            common = {"name": event.trace_name, "ts": event.time_range.start, "pid": "CPU functions", "args": {}}
            elements = [{**common, "ph": "X", "dur": event.time_range.elapsed_us(), "tid": thread}]
            for _ in event.kernels:
                elements.append({**common, "ph": "s", "tid": event.thread, "id": flows, "cat": category})
                flows += 1
            file.write(separator + ",\n".join(map(json.dumps, elements)))
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
