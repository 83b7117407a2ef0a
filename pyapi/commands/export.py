"""Write a capture in the format of another tool."""

from __future__ import annotations

import argparse
from pathlib import Path

from pillion._capture import open_capture
from pillion._errors import PillionError, UsageError

HELP = "write a capture in the format of another tool"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("capture", type=Path, metavar="DIR", help="a capture")
    parser.add_argument(
        "-f",
        "--format",
        choices=("chrome", "collapsed"),
        required=True,
        help="chrome: a trace for chrome://tracing and Perfetto; collapsed: stacks for flame graphs",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="gzipped if it ends in .gz")
    parser.add_argument("--off-cpu", action="store_true", help="collapsed: waits in µs instead of samples")
    parser.add_argument("--force", action="store_true", help="replace the file that is there")


def run(args: argparse.Namespace) -> int:
    """Write the file.

    Raises:
        UsageError: --off-cpu with another format.
        PillionError: the file exists, or cannot be written.
        CaptureError: there is no capture, or it cannot be read.
    """
    if args.off_cpu and args.format != "collapsed":
        raise UsageError("wrong usage", f"--off-cpu says nothing to -f {args.format}", "use it with -f collapsed")
    if args.output.is_file() and not args.force:
        raise PillionError(f"cannot write {args.output}", "it exists", "add --force, or name another with -o")
    capture = open_capture(args.capture)
    try:
        if args.format == "chrome":
            capture.export_chrome_trace(args.output)
        else:
            from pillion.export.collapsed import write_collapsed

            write_collapsed(capture, args.output, args.off_cpu)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise PillionError(f"cannot write {args.output}", error.strerror or str(error)) from error
    return 0
