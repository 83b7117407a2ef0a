"""Write a capture in the format of another tool."""

from __future__ import annotations

import argparse
from pathlib import Path

from pillion._capture import open_capture
from pillion._errors import PillionError, UsageError
from pillion.export.registry import FORMATS, export

HELP = "write a capture in the format of another tool"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("capture", type=Path, metavar="DIR", help="a capture")
    parser.add_argument(
        "-f",
        "--format",
        choices=tuple(FORMATS),
        required=True,
        help="; ".join(f"{name}: {each.summary}" for name, each in FORMATS.items()).replace("%", "%%"),
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="PATH",
        help="a file, gzipped if it ends in .gz; or a folder",
    )
    parser.add_argument("--off-cpu", action="store_true", help="collapsed: waits in µs instead of samples")
    parser.add_argument("--force", action="store_true", help="replace what is there")


def run(args: argparse.Namespace) -> int:
    """Write the file or folder.

    Raises:
        UsageError: --off-cpu with another format.
        PillionError: the file exists, or cannot be written.
        CaptureError: there is no capture, or it cannot be read.
    """
    kind = FORMATS[args.format]
    if args.off_cpu and not kind.has_off_cpu:
        raise UsageError("wrong usage", f"--off-cpu says nothing to -f {args.format}", "use it with -f collapsed")
    is_there = any(args.output.glob("*.parquet")) if kind.is_folder else args.output.is_file()
    if is_there and not args.force:
        raise PillionError(f"cannot write {args.output}", "it exists", "add --force, or name another with -o")
    capture = open_capture(args.capture)
    try:
        export(capture, args.output, args.format, args.off_cpu)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise PillionError(f"cannot write {args.output}", error.strerror or str(error)) from error
    return 0
