"""A user without rights against the agent that root runs: it survives, and whom it records does not notice."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attacker
import pytest
from capture_questions import losses, range_names
from own_agent import THIRD_USER, OwnAgent

from pillion_agent.connection import Client

Target = Callable[..., Any]
RecordWith = Callable[..., Any]

ATTACKER = Path(attacker.__file__)


@pytest.mark.usefixtures("require_users")
@pytest.mark.parametrize("attack", list(attacker.ATTACKS))
def test_an_attack_costs_nobody_anything(
    public_agent: OwnAgent, target: Target, record_with: RecordWith, attack: str
) -> None:
    """Children of a recorded job come and go meanwhile: their regions arrive by the socket that is attacked."""
    files = public_agent.open_files()
    victim = target("fork_worker", 3, 10_007, wait=True, env={"PILLION_SOCKET": str(public_agent.directory)})
    session = record_with(public_agent, victim.pid, follow=True)
    with subprocess.Popen(
        [sys.executable, str(ATTACKER), attack, str(public_agent.directory)],
        user=THIRD_USER,
        group=THIRD_USER,
        extra_groups=[],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        victim.go()
        session.wait_for_end()
        truth = victim.answer()
        capture = session.finish()
        process.communicate()
    names = range_names(capture)
    assert (names.count("parent"), names.count("child")) == (truth["parent"], truth["child"])
    assert not losses(capture)
    public_agent.wait_for_sessions(0)
    assert public_agent.open_files() == files


def test_a_client_that_has_not_read_gets_its_last_word_all_the_same(require_root: None) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        theirs.setblocking(False)
        client = Client(theirs)
        sent = 0
        while _fits(theirs):
            sent += 1
        client.send({"event": "progress"})  # missed
        client.send_last({"event": "done"})
        for _ in range(sent):
            assert ours.recv(65536) == b"progress"
        assert json.loads(ours.recv(65536)) == {"event": "done"}


def _fits(connection: socket.socket) -> bool:
    try:
        connection.send(b"progress")
    except BlockingIOError:
        return False
    return True
