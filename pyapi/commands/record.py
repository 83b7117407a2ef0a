"""``pillion record``: records processes that run already, or the whole machine."""

from __future__ import annotations

import argparse
import os
import socket
from pathlib import Path

from pillion._client import RecordRequest
from pillion._errors import PillionError
from pillion._interrupts import Interrupts
from pillion._output import CaptureDirectory, command_stem, default_path
from pillion._session import Limits, Recording
from pillion.commands._options import add_recording_options, process_id
from pillion.commands._progress import ProgressLine
from pillion.commands._result import save_and_show

HELP = "record processes that run already, or the whole machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "-p", "--pid", type=process_id, action="extend", nargs="+", metavar="PID", help="a process; may be repeated"
    )
    what.add_argument("-a", "--all", action="store_true", help="every process of the machine (root)")
    add_recording_options(parser)


def run(args: argparse.Namespace) -> int:
    pids = tuple(dict.fromkeys(args.pid or ()))
    for pid in pids:
        _check_process(pid)
    path = args.output or _default_path(pids)
    progress = ProgressLine()
    with Recording(CaptureDirectory(path, replace=args.force)) as recording:
        recording.begin(
            RecordRequest(
                pids=pids,
                machine=args.all,
                follow=True,
                rate_hz=args.rate,
                wait_threshold_ns=args.wait_threshold * 1000,
                transport=args.transport,
                probes=tuple(args.usdt),
                launch_stacks=args.launch_stacks,
            )
        )
        with Interrupts() as interrupts:
            if args.duration is None:
                progress.note("recording; Ctrl-C ends it and saves")
            recording.follow(Limits(args.duration), interrupts, progress.show)
            progress.close()
            if recording.all_ended:
                progress.note("every recorded process has ended")
            failure = save_and_show(recording, print, progress)
    if failure:
        raise failure
    return 0


def _check_process(pid: int) -> None:
    """The agent checks again; this one needs no agent to say the obvious."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        raise PillionError(f"cannot record process {pid}", "no such process", "`ps -e` lists them") from None
    except PermissionError:
        pass  # it exists; whether this user may record it is the agent's decision


def _default_path(pids: tuple[int, ...]) -> Path:
    if not pids:
        return default_path(socket.gethostname().partition(".")[0] or "machine", os.getpid())
    try:
        with open(f"/proc/{pids[0]}/cmdline", "rb") as file:
            command = [word.decode(errors="replace") for word in file.read().split(b"\0")[:-1]]
    except OSError:
        command = []
    return default_path(command_stem(command) if command else "process", pids[0])
