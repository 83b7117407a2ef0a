"""``pillion doctor``: tries everything that a recording needs and says what mends what is missing."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pillion._agent_process import agent_command, agent_python
from pillion._client import AgentClient
from pillion._errors import PillionError, Unavailable

HELP = "say what a recording would lack on this machine"

# The agent's self-test compiles and attaches its eBPF programs.
_SELF_TEST_TIMEOUT_S = 120


@dataclass(frozen=True)
class Check:
    """One thing that was tried.

    Attributes:
        check: what.
        ok: whether it is there.
        detail: what was found.
        fix: the command that mends it, or "".
        required: whether a recording needs it.
    """

    check: str
    ok: bool
    detail: str = ""
    fix: str = ""
    required: bool = True

    def line(self) -> str:
        state = "ok" if self.ok else "missing" if self.required else "absent"
        fix = f"; {self.fix}" if self.fix and not self.ok else ""
        return f"{state:<8} {self.check}: {self.detail}{fix}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help='{"ok": …, "checks": [{"check", "ok", "detail", "fix", …}]}'
    )


def run(args: argparse.Namespace) -> int:
    agent = _agent()
    checks = [_native_library(), _memfd(), _torch(), agent]
    # An agent that answers has what it needs, whatever this user may do.
    checks += _self_test() if not agent.ok or os.geteuid() == 0 else ()
    works = all(check.ok for check in checks if check.required)
    if args.json:
        print(json.dumps({"ok": works, "checks": [asdict(check) for check in checks]}))
    else:
        print("\n".join(check.line() for check in checks))
        print("recording works" if works else "recording does not work yet")
    return 0 if works else Unavailable.exit_code


def _native_library() -> Check:
    name = "native library"
    try:
        from pillion._native import lib

        error = lib.pln_setup()
    except (ImportError, OSError) as failure:
        return Check(name, False, str(failure), "install pillion again, with a C compiler")
    if error:
        return Check(name, False, f"no region: {os.strerror(-error)}", "raise the limits of memory and open files")
    return Check(name, True, "loads, and makes its region")


def _memfd() -> Check:
    try:
        os.close(os.memfd_create("pillion-doctor"))
    except OSError as error:
        return Check("memfd", False, error.strerror or str(error), "allow memfd_create in the seccomp profile")
    return Check("memfd", True, "can be made")


def _torch() -> Check:
    from importlib import metadata

    if importlib.util.find_spec("torch") is None:
        return Check("torch", False, "not in this Python; plain Python jobs do without", required=False)
    try:
        return Check("torch", True, metadata.version("torch"), required=False)
    except metadata.PackageNotFoundError:
        return Check("torch", True, "of unknown version", required=False)


def _agent() -> Check:
    try:
        with AgentClient() as client:
            status = client.status()
    except PillionError as error:
        is_root = os.geteuid() == 0
        fix = "root's `run` and `record` start one" if is_root else "`sudo pillion agent start`"
        return Check("agent", False, error.message, fix, required=False)
    return Check("agent", True, f"runs as process {status.get('pid')}", required=False)


def _self_test() -> Iterator[Check]:
    """What only the agent can try: the privileges, bcc, BTF, a program that loads, a clock that ticks."""
    try:
        python = agent_python()
    except Unavailable as error:
        yield Check("agent's Python", False, error.reason, error.fix)
        return
    yield Check("agent's Python", True, python)
    with tempfile.TemporaryDirectory(prefix="pillion-") as links:
        try:
            command, environment = agent_command(python, ["--self-test"], Path(links))
            answer = subprocess.run(
                command, env=environment, cwd="/", capture_output=True, timeout=_SELF_TEST_TIMEOUT_S, check=False
            )
            yield from [_from_agent(item) for item in json.loads(answer.stdout)]
        except PillionError as error:
            yield Check("agent self-test", False, error.message, error.fix)
        except subprocess.TimeoutExpired:
            yield Check(
                "agent self-test", False, f"not done in {_SELF_TEST_TIMEOUT_S} s", "try again on a calmer machine"
            )
        except (ValueError, TypeError, AttributeError):
            said = answer.stderr.decode(errors="replace").strip().rpartition("\n")[2] or "it says nothing"
            yield Check("agent self-test", False, f"{python} -m pillion_agent: {said}", "install pillion as a whole")


def _from_agent(item: dict[str, Any]) -> Check:
    texts = {key: str(item.get(key) or "") for key in ("check", "detail", "fix")}
    return Check(ok=item.get("ok") is True, required=item.get("required", True) is True, **texts)
