"""SIGKILL for each of the three in turn: the others go on, what was recorded is there, nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from capture_questions import losses, range_names
from own_agent import OwnAgent, is_recording, semaphore

import pillion
from pillion._capture import read_spool_capture
from pillion_probes import CONSTANTS

Target = Callable[..., Any]
RecordWith = Callable[..., Any]

RANGES = 10_007
CLIENT = """
import os, signal, sys
from pillion._client import AgentClient, RecordRequest

pid, path, transport = sys.argv[1:]
client = AgentClient()
client.record(RecordRequest(pids=(int(pid),), transport=transport), os.open(path, os.O_RDWR | os.O_CREAT))
print(flush=True)
while client.next_event(None).ranges < 10_007:
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_job_outlives_the_agent_and_a_new_agent_works_at_once(
    require_bpf: None, target: Target, record_with: RecordWith, tmp_path: Path
) -> None:
    with OwnAgent() as first:
        victim = target("emit_on_demand", RANGES, env={"PILLION_SOCKET": str(first.directory)})
        command = [sys.executable, "-m", "pillion", "record", "-p", str(victim.pid), "-o", "out"]
        environment = {**os.environ, "PILLION_SOCKET": str(first.directory)}
        recorder = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        first.wait_for_sessions(1)
        probes = record_with(first, victim.pid, transport="usdt")
        rings = record_with(first, victim.pid)
        victim.go()
        for session in (probes, rings):  # what progress tells of is in the spools
            session.wait_for(lambda progress: progress.ranges >= RANGES)
        assert semaphore(victim.pid) == 1
        first.kill()

    _, said = recorder.communicate(timeout=60)
    assert recorder.returncode == 1
    *_, last = said.splitlines()
    assert last == (
        "pillion: the agent ended in the middle: it was killed or it crashed; its log is agent.log beside its socket; "
        "a new one starts with the next `pillion record`"
    )
    capture = pillion.open(tmp_path / "out")
    assert range_names(capture) == ["counted"] * RANGES
    assert losses(capture) == {"unfinished": 1}
    assert semaphore(victim.pid) == 0

    with OwnAgent(first.directory) as second:
        session = record_with(second, victim.pid)
        victim.go()
        session.wait_for(lambda progress: progress.ranges >= RANGES)
        assert is_recording(victim.pid)
        capture = session.finish()
        assert range_names(capture) == ["counted"] * RANGES
        assert not losses(capture)
        assert not is_recording(victim.pid)
        assert second.sessions() == 0
    assert victim.answer() == {"ranges": 2 * RANGES}
    assert not list(first.directory.glob("*.sock"))


def test_a_job_outlives_its_client_and_the_agent_ends_the_session(
    public_agent: OwnAgent, target: Target, tmp_path: Path
) -> None:
    files = public_agent.open_files()
    victim = target("emit_on_demand", RANGES, env={"PILLION_SOCKET": str(public_agent.directory)})
    environment = {**os.environ, "PILLION_SOCKET": str(public_agent.directory)}
    transports = ("rings", "usdt")
    clients = []
    for transport in transports:
        command = [sys.executable, "-c", CLIENT, str(victim.pid), str(tmp_path / transport), transport]
        clients.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
    for client in clients:
        assert client.stdout
        assert client.stdout.readline() == b"\n"
    assert semaphore(victim.pid) == 1
    victim.go()
    for client in clients:
        client.communicate(timeout=60)
        assert client.returncode == -signal.SIGKILL
    public_agent.wait_for_sessions(0)
    assert public_agent.open_files() == files
    assert not is_recording(victim.pid)
    assert semaphore(victim.pid) == 0
    assert victim.answer() == {"ranges": RANGES}
    for transport in transports:
        capture = read_spool_capture(tmp_path / transport)
        assert range_names(capture) == ["counted"] * RANGES
        assert capture.meta["reason"] == "finished"


def test_a_job_that_is_killed_leaves_every_range_it_had_ended(public_agent: OwnAgent, tmp_path: Path) -> None:
    job = (
        "import os, signal\nfrom pillion import record_function\n"
        "with record_function('open'):\n"
        " for _ in range(10_007):\n"
        "  with record_function('ended'): pass\n"
        " os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    result = public_agent.pillion("run", "-o", "out", "--", sys.executable, "-c", job, cwd=tmp_path)
    assert result.returncode == 128 + signal.SIGKILL, result.stderr
    capture = pillion.open(tmp_path / "out")
    names = np.array(range_names(capture))
    assert (names == "ended").sum() == 10_007
    unfinished = capture.columns["events"]["flags"] & CONSTANTS["PLN_UNFINISHED"] != 0
    assert list(names[unfinished]) == ["open"]
    assert not losses(capture)
    assert public_agent.sessions() == 0


def test_an_agent_that_is_stopped_ends_its_sessions_well(require_bpf: None, target: Target, tmp_path: Path) -> None:
    with OwnAgent() as agent:
        victim = target("sleep_in_range", wait=True, env={"PILLION_SOCKET": str(agent.directory)})
        command = [sys.executable, "-m", "pillion", "record", "-p", str(victim.pid), "-o", "out"]
        environment = {**os.environ, "PILLION_SOCKET": str(agent.directory)}
        recorder = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        agent.wait_for_sessions(1)
    _, said = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, said
    assert pillion.open(tmp_path / "out").meta["reason"] == "the agent was stopped"
    assert not list(agent.directory.glob("*.sock"))
