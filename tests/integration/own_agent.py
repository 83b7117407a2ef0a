"""An agent of a test's own, in a socket directory of its own, and what is asked of it from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from pillion._client import AgentClient
from pillion_agent.procfs import find_regions, read_mappings
from pillion_agent.usdt import library_path, read_probes
from pillion_probes import STRUCTS

TIMEOUT_S = 60
OTHER_USER, THIRD_USER = 65534, 65533


class OwnAgent:
    """``python -m pillion_agent``, as ``pillion agent start`` runs it.

    Args:
        directory: of its sockets; None for a new one that every user may reach.
        prefix: a command that runs it, ``["unshare", "--mount", …]``.

    Attributes:
        answer: the line it says when it listens, or why it does not.
        pid: of the agent, once it listens.
    """

    def __init__(self, directory: Path | None = None, prefix: Sequence[str] = (), **environment: str) -> None:
        if directory is None:
            directory = Path(tempfile.mkdtemp(prefix="pillion-"))  # a socket's path must be short
            directory.chmod(0o755)
        self.directory = directory
        ready, self._ready = os.pipe()
        command = [sys.executable, "-m", "pillion_agent", "--socket-dir", str(directory), "--ready-fd"]
        self._process = subprocess.Popen(
            [*prefix, *command, str(self._ready)],
            pass_fds=[self._ready],
            env={**os.environ, **environment},
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(self._ready)
        with os.fdopen(ready) as file:
            self.answer: dict[str, Any] = json.loads(file.readline() or "{}")
        self.pid: int = self.answer.get("pid", 0)

    def __enter__(self) -> OwnAgent:
        assert self.pid, f"{self.answer} {self.wait()}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self.wait()

    def wait(self) -> tuple[int, str]:
        """Its exit code, and what it said on stderr."""
        _, said = self._process.communicate(timeout=TIMEOUT_S)
        return self._process.returncode, said

    def kill(self) -> None:
        """As the kernel does it to a process that has too much memory."""
        self._process.kill()
        self.wait()

    def client(self) -> AgentClient:
        return AgentClient(self.directory)

    def sessions(self) -> int:
        with self.client() as client:
            return len(client.status()["sessions"])

    def wait_for_sessions(self, count: int) -> None:
        """Asks until the agent has so many sessions; its answers set the pace."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while self.sessions() != count:
            assert time.monotonic() < deadline_s, f"not {count} sessions"

    def open_files(self) -> list[str]:
        """What its descriptors are, but for symbol tables, with one connection open.

        Connections that were closed before are closed on its side, too.
        """
        with self.client() as client:
            client.status()
            paths = Path(f"/proc/{self.pid}/fd").iterdir()
            return sorted(str(path.readlink()).partition(":[")[0] for path in paths if not _is_symbol_table(path))

    def pillion(
        self, *arguments: object, user: int | None = None, cwd: Path | str = "/"
    ) -> subprocess.CompletedProcess[str]:
        """What a user of this agent sees of a command."""
        return run_pillion(self.directory, *arguments, user=user, cwd=cwd)


def _is_symbol_table(path: Path) -> bool:
    """A library or a program, or the kernel's list."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return path.readlink() == Path("/proc/kallsyms") or file.read(4) == b"\x7fELF"


def run_pillion(
    directory: Path, *arguments: object, user: int | None = None, cwd: Path | str = "/"
) -> subprocess.CompletedProcess[str]:
    """A command of pillion, with its agent in that directory."""
    return subprocess.run(
        [sys.executable, "-m", "pillion", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PILLION_SOCKET": str(directory)},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def semaphore(pid: int) -> int:
    """How many tracers hold up the USDT probe of libpillion.so in a process."""
    (probe,) = (probe for probe in read_probes(library_path()) if probe.name == "range")
    (found,) = (
        mapping
        for mapping in read_mappings(pid)
        if mapping.path == str(library_path().resolve())
        and "w" in mapping.permissions
        and mapping.offset <= probe.semaphore < mapping.offset + mapping.end - mapping.start
    )
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(found.start + probe.semaphore - found.offset)
        return int.from_bytes(memory.read(2), "little")


def is_recording(pid: int) -> bool:
    """Whether the process's region tells it to record."""
    (path,) = find_regions(pid)
    with open(path, "rb") as region:
        region.seek(STRUCTS["pln_region"].fields["recording"][1])
        return int.from_bytes(region.read(4), "little") != 0
