"""``pillion record`` against a fake agent."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fake_agent import FakeAgent
from pillion_command import Run
from spool_writer import training_spool

import pillion


def ended_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_duration_ends_it(cli: Run, fake_agent: FakeAgent, tmp_path: Path) -> None:
    result = cli("record", "-p", os.getpid(), "-d", "10ms", "-o", "out", "--wait-threshold", "250")
    assert result.returncode == 0, result.stderr
    request = fake_agent.requests.get()
    assert (request["pids"], request["all"], request["wait_threshold_ns"]) == ([os.getpid()], False, 250_000)
    assert "forward" in result.stdout
    assert pillion.open(tmp_path / "out").samples.num_rows == 3


def test_processes_may_be_named_one_by_one_or_together(cli: Run, fake_agent: FakeAgent) -> None:
    cli("record", "-p", os.getpid(), os.getppid(), "-p", os.getpid(), "-d", "10ms", "-o", "out")
    assert fake_agent.requests.get()["pids"] == [os.getpid(), os.getppid()]


def test_all_asks_for_the_machine(cli: Run, fake_agent: FakeAgent) -> None:
    cli("record", "-a", "-d", "10ms", "-o", "out")
    request = fake_agent.requests.get()
    assert (request["pids"], request["all"]) == ([], True)


def test_it_ends_when_all_recorded_processes_have(
    fake_agent: FakeAgent, socket_directory: Path, tmp_path: Path
) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as target:
        command = [sys.executable, "-m", "pillion", "record", "-p", str(target.pid), "-o", "out"]
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        fake_agent.requests.get()
        target.communicate()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "every recorded process has ended" in said
    assert pillion.open(tmp_path / "out").samples.num_rows == 3


def test_an_interrupt_ends_it_and_saves(fake_agent: FakeAgent, socket_directory: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pillion", "record", "-p", str(os.getpid()), "-o", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr
    assert "Ctrl-C" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert pillion.open(tmp_path / "out").samples.num_rows == 3


def test_a_second_interrupt_aborts_and_keeps_the_spool(
    fake_agent: FakeAgent, socket_directory: Path, tmp_path: Path
) -> None:
    fake_agent.script.then = "hang"
    command = [sys.executable, "-m", "pillion", "record", "-p", str(os.getpid()), "-o", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    assert "Ctrl-C" in process.stderr.readline()
    assert fake_agent.requests.get()["op"] == "record"
    process.send_signal(signal.SIGINT)
    assert fake_agent.requests.get()["op"] == "finish"
    while process.poll() is None:  # at once it would be the same Ctrl-C
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
    _, said = process.communicate()
    assert (process.returncode, said) == (130, "pillion: aborted; `pillion report out` reads what was recorded\n")
    assert pillion.open(tmp_path / "out").samples.num_rows == 3


def test_a_signal_to_the_process_and_to_its_group_is_one_interrupt(
    fake_agent: FakeAgent, socket_directory: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "pillion", "record", "-p", str(os.getpid()), "-o", "out"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr
    assert "Ctrl-C" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    os.killpg(process.pid, signal.SIGINT)  # as timeout does it
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert (tmp_path / "out" / "meta.json").exists()


def test_no_such_process_is_one_clear_line(cli: Run, fake_agent: FakeAgent, tmp_path: Path) -> None:
    pid = ended_pid()
    result = cli("record", "-p", pid, "-d", "1s")
    assert result.returncode == 1
    assert result.stderr == f"pillion: cannot record process {pid}: no such process; `ps -e` lists them\n"
    assert not list(tmp_path.iterdir())


def test_an_agent_that_refuses_leaves_nothing(cli: Run, fake_agent: FakeAgent, tmp_path: Path) -> None:
    fake_agent.script.refusal = {"ok": False, "error": "not yours", "cause": "uid 7", "fix": "use sudo", "code": 1}
    result = cli("record", "-p", os.getpid(), "-d", "1s")
    assert (result.returncode, result.stderr) == (1, "pillion: not yours: uid 7; use sudo\n")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_ends_it_with_the_agents_words_and_keeps_the_rest(
    cli: Run, fake_agent: FakeAgent, tmp_path: Path
) -> None:
    fake_agent.script.then = "fail"
    fake_agent.script.failure = {"event": "error", "error": "cannot write", "cause": "disk full", "fix": "", "code": 1}
    result = cli("record", "-p", os.getpid(), "-o", "out")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == "pillion: cannot write: disk full"
    assert pillion.open(tmp_path / "out").samples.num_rows == 3


def test_a_torn_spool_of_a_killed_agent_is_readable(cli: Run, fake_agent: FakeAgent, tmp_path: Path) -> None:
    fake_agent.script.then = "die"
    fake_agent.script.spool = training_spool()[:-100]
    assert cli("record", "-p", os.getpid(), "-o", "out").returncode == 1
    capture = pillion.open(tmp_path / "out")
    assert capture.events.num_rows == 4
    assert {"spool_truncated", "unfinished"} <= set(capture.losses["kind"].to_pylist())


def test_an_agent_that_ends_the_session_itself_is_no_failure(cli: Run, fake_agent: FakeAgent) -> None:
    fake_agent.script.then = "end"
    assert cli("record", "-p", os.getpid(), "-o", "out").returncode == 0


def test_an_output_that_exists_is_refused_before_anything_is_asked(
    cli: Run, fake_agent: FakeAgent, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    result = cli("record", "-p", os.getpid(), "-o", "out")
    assert (result.returncode, result.stderr) == (
        1,
        "pillion: cannot write out: it exists; add --force, or name another with -o\n",
    )
    assert fake_agent.requests.empty()


def test_force_replaces_a_capture(cli: Run, fake_agent: FakeAgent, tmp_path: Path) -> None:
    cli("record", "-p", os.getpid(), "-o", "out", "-d", "10ms")
    (tmp_path / "out" / "mark").touch()
    assert cli("record", "-p", os.getpid(), "-o", "out", "-d", "10ms", "--force").returncode == 0
    assert not (tmp_path / "out" / "mark").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("option", [["-o", "missing/out"], ["-o", "/proc/out"]])
def test_a_place_that_cannot_be_written_is_one_clear_line(cli: Run, fake_agent: FakeAgent, option: list[str]) -> None:
    result = cli("record", "-p", os.getpid(), *option)
    assert result.returncode == 1
    assert result.stderr.startswith(f"pillion: cannot write {option[1]}: ")
    assert result.stderr.count("\n") == 1


def test_a_disk_that_is_too_full_for_the_tables_too_says_both(fake_agent: FakeAgent, tmp_path: Path) -> None:
    fake_agent.script.then = "fail"
    fake_agent.script.failure = {"event": "error", "error": "cannot write", "cause": "disk full", "fix": "", "code": 1}
    code = (
        "import sys, pillion._capture, pillion.cli\n"
        "def full(*_): raise OSError(28, 'No space left on device')\n"
        "pillion._capture._write_directory = full\n"
        f"sys.exit(pillion.cli.main(['record', '-p', '{os.getpid()}', '-o', 'out']))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 1
    *_, first, last = result.stderr.splitlines()
    assert first == "pillion: cannot write: disk full"
    assert last == (
        "pillion: cannot write out: No space left on device; nothing is lost: `pillion report out` reads the spool"
    )
    assert pillion.open(tmp_path / "out").samples.num_rows == 3
