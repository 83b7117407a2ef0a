"""The formats that a capture can be written in. What writes one is loaded when it is needed."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pillion._capture import Capture


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        writer: ``module:function`` of what writes it, called with a capture and a path.
        summary: what it is for.
        has_off_cpu: it can show waits instead of samples, with the keyword ``off_cpu``.
        is_folder: it is a folder of files.
    """

    writer: str
    summary: str
    has_off_cpu: bool = False
    is_folder: bool = False


FORMATS = {
    "chrome": Format("chrome:write_chrome_trace", "JSON as torch's, for chrome://tracing, Perfetto, TensorBoard, HTA"),
    "perfetto": Format("perfetto:write_perfetto", "a trace for ui.perfetto.dev, exact to the nanosecond"),
    "speedscope": Format("speedscope:write_speedscope", "ranges and stacks for speedscope.app"),
    "pprof": Format("pprof:write_pprof", "stacks for `go tool pprof` and what else reads its profiles, gzipped"),
    "collapsed": Format("collapsed:write_collapsed", "stacks for flame graphs", has_off_cpu=True),
    "parquet": Format("parquet:write_parquet", "a folder of tables for DuckDB, Polars, pandas", is_folder=True),
}


def export(capture: Capture, path: str | os.PathLike[str], format: str, off_cpu: bool = False) -> None:
    """Write a capture in one of ``FORMATS``; what was at the path is replaced once the new is whole.

    Text and traces are gzipped where the path ends in ``.gz``.

    Args:
        off_cpu: stacks of waits instead of samples, where the format has the choice.

    Raises:
        ValueError: there is no such format, or it has no such choice.
        OSError: the path cannot be written.
        CaptureError: the capture holds what the format cannot.
    """
    if format not in FORMATS:
        raise ValueError(f"no format {format!r}: there are {', '.join(FORMATS)}")
    if off_cpu and not FORMATS[format].has_off_cpu:
        raise ValueError(f"off_cpu says nothing to the format {format}")
    module, _, function = FORMATS[format].writer.partition(":")
    write = getattr(importlib.import_module(f"pillion.export.{module}"), function)
    if off_cpu:
        write(capture, path, off_cpu=True)
    else:
        write(capture, path)
