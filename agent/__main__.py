"""``python -m pillion_agent``: the sidecar process. Users start it through ``pillion agent start``."""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
from pathlib import Path

from pillion_agent.errors import AgentError


def main() -> int:
    parser = argparse.ArgumentParser(prog="pillion_agent", description=__doc__)
    parser.add_argument("--socket-dir", type=Path, default=Path(os.environ.get("PILLION_SOCKET", "/run/pillion")))
    parser.add_argument(
        "--ready-fd", type=int, help="write one JSON line here once the socket listens, or why it does not"
    )
    parser.add_argument("--idle-exit", action="store_true", help="exit when the last session has ended")
    parser.add_argument(
        "--self-test", action="store_true", help="try everything that recording needs; print a JSON list"
    )
    args = parser.parse_args()
    if args.self_test:
        from pillion_agent.self_test import run_checks

        print(json.dumps(run_checks()))
        return 0
    try:
        return _serve(args)
    except AgentError as error:
        _tell(args.ready_fd, error.message())
        print(f"pillion-agent: {error}", file=sys.stderr)
        return error.code


def _tell(fd: int | None, message: dict[str, object]) -> None:
    if fd is not None:
        os.write(fd, json.dumps(message).encode() + b"\n")
        os.close(fd)


def _serve(args: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise AgentError("cannot start", "eBPF needs root", "use sudo", code=3)
    # After the check, so that what is missing is said in the right order; bcc takes a tenth of a second.
    try:
        from pillion_agent.programs import Programs
        from pillion_agent.recorder import Recorder
        from pillion_agent.server import Server
    except ModuleNotFoundError as error:
        cause = f"{sys.executable} has no {error.name}"
        raise AgentError("cannot start", cause, f"`sudo apt-get install python3-{error.name}`", code=3) from error

    # A descriptor for each region and session; the usual soft limit is for programs that use select().
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = Server(args.socket_dir, Recorder(Programs()), args.idle_exit)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    _tell(args.ready_fd, {"ok": True, "pid": os.getpid()})
    server.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
