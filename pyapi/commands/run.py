"""``pillion run``: runs a command and records it, its children and its workers, from before its first instruction."""

from __future__ import annotations

import argparse
import os
import sys

from pillion._child import Child
from pillion._client import RecordRequest, socket_directory
from pillion._errors import UsageError
from pillion._interrupts import Interrupts
from pillion._output import CaptureDirectory, command_stem, default_path
from pillion._session import Limits, Recording
from pillion.commands._options import add_recording_options
from pillion.commands._progress import ProgressLine
from pillion.commands._result import save_and_show

HELP = "run a command and record it, with its children"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recording_options(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD …", help="what to run")


def run(args: argparse.Namespace) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("nothing to run", "no command was given", "pillion run [options] -- CMD …")
    if args.output:
        CaptureDirectory(args.output, replace=args.force)  # refuses before anything is started
    environment = _environment(args.transport)
    with Child(command, environment) as child:
        path = args.output or default_path(command_stem(command), child.pid)
        with Recording(CaptureDirectory(path, replace=args.force)) as recording:
            return _record(child, recording, args)


def _record(child: Child, recording: Recording, args: argparse.Namespace) -> int:
    progress = ProgressLine()
    recording.begin(
        RecordRequest(
            pids=(child.pid,),
            follow=True,
            rate_hz=args.rate,
            wait_threshold_ns=args.wait_threshold * 1000,
            transport=args.transport,
        )
    )
    with Interrupts(child.forward) as interrupts:
        try:
            child.release()
        except BaseException:
            recording.discard()
            raise
        recording.follow(Limits(args.duration, child), interrupts, progress.show)
        progress.close()
        if not child.has_ended():
            progress.note(f"the recording has ended, process {child.pid} goes on")
        # Standard output belongs to the command, which may be piped somewhere.
        failure = save_and_show(recording, sys.stderr, progress)
        code = child.wait()  # whatever became of its recording
    if failure and code == 0:
        raise failure
    if failure:
        progress.note(str(failure))  # the command's own failure is the one to exit with
    return code


def _environment(transport: str) -> dict[str, str]:
    environment = {**os.environ, "PILLION_SOCKET": str(socket_directory())}
    environment.pop("PILLION_RECORD", None)
    if transport == "rings":
        environment["PILLION_RECORD"] = "1"  # its first range is kept even if the agent has not met its region yet
    return environment
