"""The agent as a process: which Python runs it, how it is started, how it says that it is ready.

The agent needs the distribution's bcc, the job's Python often is another one. Where they differ the agent is given a
folder of links to our three packages and nothing else: the job's site-packages would shadow the distribution's own.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import select
import subprocess
import sys
from pathlib import Path

from pillion._client import AgentClient, refusal, socket_directory
from pillion._errors import PillionError, Unavailable

START_TIMEOUT_S = 60.0
PACKAGES = ("pillion", "pillion_agent", "pillion_probes")
SYSTEM_PYTHON = "/usr/bin/python3"

# PyPI's "bcc" is an unrelated package; the real one has libbcc.py. Runs in any Python 3 and imports nothing of bcc.
_BCC_CHECK = """
import importlib.util, os
spec = importlib.util.find_spec("bcc")
places = spec.submodule_search_locations or [] if spec else []
raise SystemExit(not any(os.path.exists(os.path.join(place, "libbcc.py")) for place in places))
"""


def agent_python() -> str:
    """The Python that runs the agent: ``$PILLION_AGENT_PYTHON``, else this one or the system's if it has bcc.

    Raises:
        Unavailable: none has it.
    """
    chosen = os.environ.get("PILLION_AGENT_PYTHON")
    candidates = [chosen] if chosen else [sys.executable, SYSTEM_PYTHON]
    for python in candidates:
        if python and _has_bcc(python):
            return python
    raise Unavailable(
        f"no Python with bcc: not {' nor '.join(filter(None, candidates))}",
        "`sudo apt-get install python3-bpfcc` (PyPI's bcc is another package)",
    )


def agent_command(python: str, arguments: list[str], links: Path) -> tuple[list[str], dict[str, str]]:
    """The command line of ``pillion_agent`` in that Python, and the environment it needs.

    Args:
        python: from ``agent_python``.
        arguments: the agent's own.
        links: a folder to make, for links to our packages, where that Python is another than this one.

    Raises:
        Unavailable: a package of ours is missing, or the folder cannot be made.
    """
    environment = dict(os.environ)
    # Compared as written: a virtual environment's python is a link to the one it was made from, but not the same.
    if os.path.abspath(python) != os.path.abspath(sys.executable):
        _link_packages(links)
        environment["PYTHONPATH"] = str(links)
    return [python, "-m", "pillion_agent", *arguments], environment


def start_agent(*, idle_exit: bool) -> None:
    """Starts an agent in the background and returns when its socket listens (needs root).

    Args:
        idle_exit: it ends by itself some seconds after its last session.

    Raises:
        PillionError: why it could not start, in the agent's words where it got so far.
    """
    if os.geteuid() != 0:
        raise Unavailable("no agent runs: only root can start one", "`sudo pillion agent start`")
    python = agent_python()
    directory = socket_directory()
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        log = open(directory / "agent.log", "ab")  # noqa: SIM115 closed below, whatever happens
    except OSError as error:
        raise _unusable(directory, error) from error
    ready_read, ready_write = os.pipe()
    try:
        arguments = ["--socket-dir", str(directory), "--ready-fd", str(ready_write)]
        arguments += ["--idle-exit"] if idle_exit else []
        command, environment = agent_command(python, arguments, directory / "packages")
        # cwd: `-m` would let the folder where sudo was typed, maybe a stranger's, provide modules of a root process.
        process = subprocess.Popen(
            command,
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(ready_write,),
            start_new_session=True,
        )
        os.close(ready_write)
        ready_write = -1
        _wait_until_ready(ready_read, process, directory)
    finally:
        log.close()
        os.close(ready_read)
        if ready_write >= 0:
            os.close(ready_write)
    # It outlives us on purpose: without this Popen complains about a child that nobody waited for.
    process.returncode = 0


def connect_or_start() -> AgentClient:
    """A connection to the agent; as root, starts one for this session if none runs.

    Raises:
        Unavailable: none runs and this is not root, or it cannot start.
    """
    try:
        return AgentClient()
    except Unavailable:
        if os.geteuid() != 0:
            raise
    try:
        start_agent(idle_exit=True)
    except PillionError:
        # Another client may have been faster: its agent serves us as well.
        with contextlib.suppress(Unavailable):
            return AgentClient()
        raise
    return AgentClient()


def _wait_until_ready(ready: int, process: subprocess.Popen[bytes], directory: Path) -> None:
    """Reads the one JSON line that the agent writes when it listens or gives up; no line: it died."""
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([ready], [], [], START_TIMEOUT_S)[0]:
            process.kill()
            process.wait()
            raise Unavailable(f"the agent does not start: no word in {START_TIMEOUT_S:.0f} s", _see(directory))
        chunk = os.read(ready, 65536)
        if not chunk:
            break
        line += chunk
    try:
        answer = json.loads(line)
    except ValueError:
        code = process.wait()
        raise Unavailable(f"the agent does not start: it exited with {code}", _see(directory)) from None
    if answer.get("ok") is not True:
        process.wait()
        raise refusal(answer)


def _unusable(directory: Path, error: OSError) -> Unavailable:
    return Unavailable(f"cannot use {directory}: {error.strerror}", "set PILLION_SOCKET to a folder of root")


def _see(directory: Path) -> str:
    return f"read {directory / 'agent.log'}, and try `pillion doctor`"


def _has_bcc(python: str) -> bool:
    try:
        check = subprocess.run([python, "-c", _BCC_CHECK], cwd="/", stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return False
    return check.returncode == 0


def _link_packages(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        for name in PACKAGES:
            link = folder / name
            link.unlink(missing_ok=True)
            link.symlink_to(_package_directory(name))
    except OSError as error:
        raise _unusable(folder, error) from error


def _package_directory(name: str) -> str:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable(f"no package {name} in {sys.executable}", "install pillion as a whole")
    return os.path.abspath(next(iter(spec.submodule_search_locations)))
