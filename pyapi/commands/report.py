"""Show where the time of a capture went."""

from __future__ import annotations

import argparse
from pathlib import Path

from pillion._capture import open_capture
from pillion._errors import UsageError

HELP = "show where the time of a capture went"

_VIEWS = ("range", "function", "thread", "process", "wait", "gpu", "kernel", "launch")
_LIMIT = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("capture", type=Path, metavar="DIR", help="a capture")
    parser.add_argument("--by", choices=_VIEWS, default="range", help="what a row is (range)")
    parser.add_argument("--sort", metavar="KEY", help="the column of --json to sort by; numbers descend")
    parser.add_argument("--limit", type=int, metavar="N", help=f"rows at most, 0 for all ({_LIMIT}; with --json all)")
    parser.add_argument("--json", action="store_true", help="for programs: meta, losses and rows, times in ns")


def run(args: argparse.Namespace) -> int:
    """Print the report to stdout.

    Raises:
        UsageError: --limit is negative, or the view has no column --sort.
        CaptureError: there is no capture, or it cannot be read.
    """
    if args.limit is not None and args.limit < 0:
        raise UsageError("wrong --limit", f"{args.limit} is negative", "0 shows all rows")
    capture = open_capture(args.capture)
    if args.json:
        from pillion.render.json_report import render_json

        print(render_json(capture, args.by, args.sort, args.limit or None))
    else:
        from pillion.render.text import render_report

        print(render_report(capture, args.by, args.sort, _LIMIT if args.limit is None else args.limit or None))
    return 0
