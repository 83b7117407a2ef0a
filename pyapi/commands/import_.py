"""Make a capture from the profile of another tool."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pillion._capture import save_capture
from pillion._output import CaptureDirectory

HELP = "make a capture from the profile of another tool"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="Kineto's or Chrome's JSON (.gz too), Nsight Systems' or nvprof's SQLite, perf script's text",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="the capture")
    parser.add_argument("--force", action="store_true", help="replace the capture that is there")


def run(args: argparse.Namespace) -> int:
    """Write the capture, and what it holds to stdout.

    Raises:
        PillionError: the output exists, or cannot be written.
        CaptureError: nothing of the file can be used.
    """
    directory = CaptureDirectory(args.output, replace=args.force)
    from pillion.importers import import_trace

    capture = import_trace(args.file)
    os.close(directory.create_spool())
    try:
        save_capture(capture, directory.path, directory.spool_path)
    except BaseException:
        directory.discard()
        raise
    directory.keep()
    from pillion.render.notes import capture_notes

    for line in capture_notes(capture):
        print(line)
    print(f"look: pillion report {args.output}")
    return 0
