"""Captures of GPUs, made of spools, and what tests ask them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spool_writer import SpoolWriter

from pillion._capture import Capture
from pillion._tables import check_references, column
from pillion.merge import merge
from pillion.merge.spool import parse_spool


def capture_of(writer: SpoolWriter) -> Capture:
    capture = Capture(*merge(parse_spool(writer.to_bytes())))
    check_references(capture.columns)
    return capture


def rows(capture: Capture, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Rows of a table, names as texts, optional columns as their defaults."""
    values = [column(table, capture.columns[table], name) for name in columns]
    texts = capture.columns["strings"]["text"]
    found = zip(*([values_of[row] for row in range(len(capture.columns[table]["start_ns"]))] for values_of in values))
    named = ("name", "args", "attributes")
    return [tuple(texts[value] if name in named else value for name, value in zip(columns, row)) for row in found]


def event_names(capture: Capture, events: Sequence[int]) -> list[str | None]:
    texts = capture.columns["strings"]["text"][capture.columns["events"]["name"]]
    return [texts[event] if event >= 0 else None for event in events]


def losses(capture: Capture) -> dict[str, int]:
    table = capture.columns["losses"]
    counts = zip(table["kind"].tolist(), table["count"].tolist())
    return {kind: count for kind, count in counts if count and kind != "unfinished"}


def stacked(spool: SpoolWriter) -> SpoolWriter:
    """gpu_spool's first kernel launched in matmul, called by main; the graph by native code alone."""
    for frame, (kind, name) in enumerate([("python", "main"), ("python", "matmul"), ("native", "launch")], start=1):
        place = {"file": "train.py", "line": 10 * frame} if kind == "python" else {}
        spool.object("frame", id=frame, kind=kind, name=name, module="", **place)
    spool.object("stack", id=1, frames=[3, 2, 1])
    spool.object("stack", id=2, frames=[3])
    spool.sample("CALL", 41, 41, 1_250, 1_250, range_seq=3, stack=1)
    spool.sample("CALL", 41, 41, 6_050, 6_050, range_seq=7, stack=2)
    spool.sample("CALL", 41, 41, 7_050, 7_050, range_seq=77, stack=2)  # its range was lost
    spool.sample("CALL", 77, 41, 1_250, 1_250, range_seq=3, stack=2)  # of a process without a region
    return spool
