"""``pillion run``: runs a command and records it, its children and its workers, from before its first instruction."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pillion
from pillion._child import Child
from pillion._client import RecordRequest, socket_directory
from pillion._errors import UsageError
from pillion._interrupts import Interrupts
from pillion._output import CaptureDirectory, command_stem, default_path
from pillion._session import Limits, Recording
from pillion._standard_streams import say
from pillion.commands._options import add_recording_options
from pillion.commands._progress import ProgressLine
from pillion.commands._result import save_and_show

# Where CUDA, NVTX and ITT look for a library that collects them.
_INJECTIONS = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64")

HELP = "run a command and record it, with its children"


def add_options(parser: argparse.ArgumentParser) -> None:
    """What running something takes besides the command itself."""
    add_recording_options(parser)
    parser.add_argument("--no-ops", action="store_true", help="leave torch's operators out")
    parser.add_argument(
        "--no-cuda", action="store_true", help="leave CUDA out, and CUPTI to the command's own profiler"
    )
    parser.add_argument("--shapes", action="store_true", help="record the input shapes of torch's operators")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD …", help="what to run")


def run(args: argparse.Namespace) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("nothing to run", "no command was given", "pillion run [options] -- CMD …")
    if args.output:
        CaptureDirectory(args.output, replace=args.force)  # refuses before anything is started
    environment = _environment(args.transport, ops=not args.no_ops, shapes=args.shapes, cuda=not args.no_cuda)
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
            probes=tuple(args.usdt),
            launch_stacks=args.launch_stacks,
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
        failure = save_and_show(recording, say, progress)
        code = child.wait()  # whatever became of its recording
    if failure and code == 0:
        raise failure
    if failure:
        progress.note(str(failure))  # the command's own failure is the one to exit with
    return code


def _environment(transport: str, ops: bool, shapes: bool, cuda: bool) -> dict[str, str]:
    """What makes the command tell more of itself; it inherits the rest."""
    environment = {**os.environ, "PILLION_SOCKET": str(socket_directory())}
    environment.pop("PILLION_RECORD", None)
    if transport == "rings":
        environment["PILLION_RECORD"] = "1"  # its first range is kept even if the agent has not met its region yet
    here = Path(pillion.__file__).parent
    library = str(here / "libpillion.so")
    environment |= {name: library for name in _INJECTIONS if not environment.get(name)}  # the user's own come first
    for variable, wanted in (("PILLION_NO_CUDA", cuda), ("PILLION_NO_OPS", ops)):
        environment.pop(variable, None)
        if not wanted:
            environment[variable] = "1"
    if ops or cuda:
        environment["PILLION_LIBRARY"] = library
        path = [str(here / "startup"), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    if shapes:
        environment["PILLION_TORCH_SHAPES"] = "1"
    return environment
