"""AgentClient against an agent that speaks the protocol, and against agents that do not behave."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import pytest
from fake_agent import FakeAgent
from spool_writer import training_spool

from pillion import PillionError, Unavailable, UsageError
from pillion._client import AgentClient, AgentLost, Done, Progress, RecordRequest


def test_no_agent_is_unavailable_and_names_the_command(socket_directory: Path) -> None:
    with pytest.raises(Unavailable, match=r"no agent runs: .*agent\.sock.*`sudo pillion agent start`"):
        AgentClient()


def test_status_is_the_agents_answer(fake_agent: FakeAgent) -> None:
    with AgentClient() as client:
        assert client.status()["version"] == "0"
    assert fake_agent.requests.get() == {"op": "status"}


def test_a_session_sends_the_request_and_the_spools_descriptor(fake_agent: FakeAgent) -> None:
    with AgentClient() as client, tempfile.TemporaryFile() as spool:
        client.record(RecordRequest(pids=(1,), follow=True, rate_hz=997, transport="usdt"), spool.fileno())
        assert fake_agent.requests.get() == {
            "op": "record",
            "pids": [1],
            "self": False,
            "all": False,
            "follow": True,
            "rate_hz": 997,
            "wait_threshold_ns": 100_000,
            "transport": "usdt",
        }
        assert client.next_event(None) == Progress(samples=3, waits=1, ranges=4, lost=0, processes=1, alive=1)
        assert client.next_event(0) is None
        assert client.finish() == Done(reason="finish", samples=3, waits=1, ranges=4)
        spool.seek(0)
        assert spool.read() == training_spool()


@pytest.mark.parametrize(("code", "kind"), [(1, PillionError), (2, UsageError), (3, Unavailable)])
def test_a_refusal_keeps_the_agents_words_and_code(fake_agent: FakeAgent, code: int, kind: type[PillionError]) -> None:
    fake_agent.script.refusal = {"ok": False, "error": "cannot do it", "cause": "so", "fix": "ask", "code": code}
    with AgentClient() as client, tempfile.TemporaryFile() as spool, pytest.raises(kind) as raised:
        client.record(RecordRequest(), spool.fileno())
    assert str(raised.value) == "cannot do it: so; ask"
    assert raised.value.exit_code == code


def test_an_agent_that_closes_in_the_middle_is_lost(fake_agent: FakeAgent) -> None:
    fake_agent.script.then = "die"
    with AgentClient() as client, tempfile.TemporaryFile() as spool:
        client.record(RecordRequest(), spool.fileno())
        with pytest.raises(AgentLost, match="the agent ended in the middle"):
            client.finish()


def test_an_error_event_ends_the_session_in_the_agents_words(fake_agent: FakeAgent) -> None:
    fake_agent.script.then = "fail"
    fake_agent.script.failure = {"event": "error", "error": "cannot write", "cause": "disk full", "fix": "", "code": 1}
    with AgentClient() as client, tempfile.TemporaryFile() as spool:
        client.record(RecordRequest(), spool.fileno())
        with pytest.raises(PillionError, match="cannot write: disk full"):
            client.finish()


@pytest.mark.parametrize("answer", [b"not json", b"[]", b'{"ok": false}'])
def test_an_answer_without_sense_is_an_error(socket_directory: Path, answer: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(socket_directory / "agent.sock"))
        listener.listen()
        with AgentClient() as client:
            connection, _ = listener.accept()
            connection.send(answer)
            with connection, pytest.raises(PillionError, match="different versions"):
                client.status()


def test_a_request_that_is_too_long_is_not_sent(fake_agent: FakeAgent) -> None:
    with AgentClient() as client, pytest.raises(UsageError, match="too many processes"):
        client.record(RecordRequest(pids=tuple(range(100_000, 120_000))), 0)
