"""``pillion agent``: the privileged sidecar, started, asked and ended."""

from __future__ import annotations

import argparse
import json
from typing import Any

from pillion._agent_process import start_agent
from pillion._client import AgentClient, agent_runs, socket_directory

HELP = "start, ask or end the agent"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=tuple(_ACTIONS))
    parser.add_argument("--json", action="store_true", help="the answer as one JSON object")


def run(args: argparse.Namespace) -> int:
    answer, text = _ACTIONS[args.action]()
    print(json.dumps(answer) if args.json else text)
    return 0


def _start() -> tuple[dict[str, Any], str]:
    was_running = agent_runs()
    if not was_running:
        start_agent(idle_exit=False)
    with AgentClient() as client:
        status = client.status()
    text = f"the agent {'runs already' if was_running else 'runs'} as process {status['pid']}, at {socket_directory()}"
    return {**status, "started": not was_running}, text


def _status() -> tuple[dict[str, Any], str]:
    with AgentClient() as client:
        status = client.status()
    sessions = len(status.get("sessions", ()))
    lines = (
        f"agent {status['version']}, process {status['pid']}, at {socket_directory()}",
        f"sessions: {sessions}",
        f"memory: {status.get('rss_bytes', 0) / 1e6:.0f} MB, CPU time: {status.get('cpu_ns', 0) / 1e9:.1f} s",
    )
    return status, "\n".join(lines)


def _stop() -> tuple[dict[str, Any], str]:
    with AgentClient() as client:
        client.stop_agent()
    return {"stopped": True}, "the agent has ended"


_ACTIONS = {"start": _start, "status": _status, "stop": _stop}
