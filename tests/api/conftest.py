"""A fake agent, and the command line as a user runs it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_agent import FakeAgent, Script
from pillion_command import Run, command_in
from spool_writer import training_spool


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
