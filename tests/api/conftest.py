"""A fake agent, and the command line as a user runs it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# fake_agent and pillion_command here, spool_writer there
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "unit")]

from fake_agent import FakeAgent, Script  # noqa: E402 the path comes first
from pillion_command import Run, command_in  # noqa: E402
from spool_writer import training_spool  # noqa: E402


@pytest.fixture
def socket_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where this test's clients look for an agent: nothing is there yet."""
    with tempfile.TemporaryDirectory(prefix="pillion-") as directory:  # a socket's path must be short
        monkeypatch.setenv("PILLION_SOCKET", directory)
        yield Path(directory)


@pytest.fixture
def fake_agent(socket_directory: Path) -> Iterator[FakeAgent]:
    """An agent that records a known session."""
    agent = FakeAgent(socket_directory, Script(spool=training_spool()))
    yield agent
    agent.close()


@pytest.fixture
def cli(tmp_path: Path, socket_directory: Path) -> Run:
    """``cli("run", …)`` runs pillion in ``tmp_path`` and returns what a user sees."""
    return command_in(tmp_path)
