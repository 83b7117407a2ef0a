"""What an EventList itself exports: torch's older trace, a bare array, and stacks with a metric."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

import numpy as np

from pillion.export._file import binary_output, text_output
from pillion.export._json_pieces import integers, microseconds, parts, picked
from pillion.export._json_rows import Elements, quoted
from pillion.export._rows import Dictionary, decimals
from pillion.model.columns import EventColumns
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


def write_column_trace(columns: EventColumns, path: str | os.PathLike[str], use_device: str | None = None) -> None:
    """The same of events that are columns.

    Raises:
        OSError: the file cannot be written.
    """
    shown = np.flatnonzero(columns.recorded >= 0)
    names = Dictionary(columns.names, [columns.recorded[shown]], quoted)
    category, flows = f', "cat": "cpu_to_{use_device or "cuda"}"'.encode(), 0
    kernels = np.diff(columns.kernels[1]) + columns.is_legacy
    with binary_output(path) as file:
        file.write(b"[")
        elements = Elements(file)
        for part in parts(len(shown)):
            some = np.repeat(shown[part], 1 + kernels[shown[part]])
            is_flow = some == np.concatenate([[-1], some[:-1]])
            flow = np.where(is_flow, flows + np.cumsum(is_flow) - 1, -1)
            flows += int(np.count_nonzero(is_flow))
            elapsed = decimals(columns.elapsed_us[some])  # floats, as torch has them
            elements.write_rows(
                len(some),
                b',\n{"name": ',
                names.piece(columns.recorded[some]),
                microseconds(b', "ts": ', columns.start_ns[some] - columns.origin_ns),
                integers(b', "tid": ', columns.thread_of[some]),
                picked(elapsed, np.where(is_flow, -1, np.arange(len(some))), b', "ph": "X", "dur": ', silent=-1),
                integers(b', "ph": "s", "id": ', flow, silent=-1, after=category),
                b', "pid": "CPU functions", "args": {}}',
            )
        file.write(b"]\n")


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
