"""What ``run`` and ``record`` have in common on the command line."""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path

from pillion._probes import ProbeChoice, parse_probe

_UNITS_S = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|)")
_RATE_MAX_HZ = 10_000
_WAIT_THRESHOLD_MAX_US = 60_000_000


def add_recording_options(parser: argparse.ArgumentParser) -> None:
    """-o, -r, -d, -u, --launch-stacks, --wait-threshold, --transport, --force."""
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="the capture (default: NAME-TIME-pPID.pillion in this folder)"
    )
    parser.add_argument(
        "-r", "--rate", type=rate_hz, default=99, metavar="HZ", help="samples per second and CPU, 0 for none (99)"
    )
    parser.add_argument(
        "-d", "--duration", type=duration_s, metavar="DUR", help="record this long: 500ms, 30s, 2m, plain seconds"
    )
    parser.add_argument(
        "--wait-threshold",
        type=wait_threshold_us,
        default=100,
        metavar="US",
        help="waits shorter than this are summed up only, in µs (100)",
    )
    parser.add_argument(
        "--transport",
        choices=("rings", "usdt"),
        default="rings",
        help="how ranges come out of the job: shared memory, or USDT probes (rings)",
    )
    parser.add_argument(
        "-u",
        "--usdt",
        type=usdt_probe,
        action="append",
        default=[],
        metavar="PATH:PROVIDER:PROBE",
        help="record these USDT probes of a program or library, * for any; may be repeated",
    )
    parser.add_argument(
        "--launch-stacks", action="store_true", help="take a stack at every call that launches work of a GPU"
    )
    parser.add_argument("--force", action="store_true", help="replace the capture that is there")


def usdt_probe(text: str) -> ProbeChoice:
    try:
        return parse_probe(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def duration_s(text: str) -> float:
    """``30s``, ``500ms``, ``2m``, ``1h`` or plain seconds, as seconds."""
    match = _DURATION.fullmatch(text.strip())
    seconds = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: 500ms, 30s, 2m or plain seconds")
    return seconds


def rate_hz(text: str) -> int:
    return _whole(text, "rate in Hz", _RATE_MAX_HZ)


def wait_threshold_us(text: str) -> int:
    return _whole(text, "time in µs", _WAIT_THRESHOLD_MAX_US)


def process_id(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is no process id")
    return int(text)


def _whole(text: str, what: str, maximum: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > maximum:
        raise argparse.ArgumentTypeError(f"{text!r} is no {what}: a whole number from 0 to {maximum}")
    return int(text)
