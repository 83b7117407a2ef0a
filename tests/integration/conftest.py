"""Recording with the real agent."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from own_agent import OTHER_USER, OwnAgent

from pillion._capture import Capture, read_spool_capture
from pillion._client import AgentClient, Done, Progress, RecordRequest

PROGRESS_TIMEOUT_S = 60


class RealRecording:
    """A session of the real agent, whose spool the test holds.

    Attributes:
        client: the connection.
        done: the agent's last word, after finish().
        spool: what the agent writes to.
    """

    def __init__(self, request: RecordRequest, directory: Path | None = None) -> None:
        self.client = AgentClient(directory)
        self.done: Done | None = None
        self.spool: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 close() closes it
        try:
            self.client.record(request, self.spool.fileno())
        except BaseException:
            self.close()
            raise

    def wait_for(self, condition: Callable[[Progress], bool]) -> Progress:
        """Reads progress until the condition holds."""
        while True:
            event = self.client.next_event(PROGRESS_TIMEOUT_S)
            assert isinstance(event, Progress), f"no progress: {event}"
            if condition(event):
                return event

    def wait_for_end(self) -> None:
        """Until no recorded process lives."""
        self.wait_for(lambda progress: progress.alive == 0)

    def finish(self) -> Capture:
        self.done = self.client.finish()
        self.client.close()
        self.spool.seek(0)
        return read_spool_capture(self.spool)

    def close(self) -> None:
        self.client.close()
        self.spool.close()


@pytest.fixture
def record_with() -> Iterator[Callable[..., RealRecording]]:
    """``record_with(agent, pid, …)``: a session of an OwnAgent."""
    sessions: list[RealRecording] = []

    def begin(agent: OwnAgent, *pids: int, **options: Any) -> RealRecording:
        sessions.append(RealRecording(RecordRequest(pids=pids, **options), agent.directory))
        return sessions[-1]

    yield begin
    for session in sessions:
        session.close()


@pytest.fixture(scope="session")
def public_agent(require_bpf: None) -> Iterator[OwnAgent]:
    """An agent that other users reach, for tests that must not disturb the others' one."""
    with OwnAgent() as agent:
        yield agent
    shutil.rmtree(agent.directory)


@pytest.fixture(scope="session")
def require_users(require_root: None) -> None:
    """Other users, who can run what is installed here."""
    command = [sys.executable, "-c", "import pillion._client"]
    try:
        subprocess.run(command, user=OTHER_USER, group=OTHER_USER, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs a checkout and a Python that other users may read")


@pytest.fixture
def user_folder(require_users: None) -> Iterator[Path]:
    """A folder that OTHER_USER may write to."""
    with tempfile.TemporaryDirectory(prefix="pillion-") as name:
        os.chown(name, OTHER_USER, OTHER_USER)
        yield Path(name)


@pytest.fixture
def recording(agent: object) -> Iterator[Callable[..., RealRecording]]:
    """``recording(pid, …, rate_hz=99, follow=False, …)`` begins a session; everything is attached when it returns."""
    sessions: list[RealRecording] = []

    def begin(*pids: int, **options: Any) -> RealRecording:
        sessions.append(RealRecording(RecordRequest(pids=pids, **options)))
        return sessions[-1]

    yield begin
    for session in sessions:
        session.close()
