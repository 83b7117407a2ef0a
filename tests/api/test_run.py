"""``pillion run`` against a fake agent: the command starts when it is recorded, and its exit code is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fake_agent import FakeAgent
from pillion_command import Run

import pillion


def only_capture(folder: Path) -> Path:
    (path,) = folder.glob("*.pillion")
    return path


def test_the_command_runs_recorded_and_the_capture_is_named_after_it(
    cli: Run, fake_agent: FakeAgent, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import os; print(os.getpid(), os.environ['PILLION_RECORD'])")
    result = cli("run", "-r", "997", "--", sys.executable, "train.py", "--force")
    assert result.returncode == 0, result.stderr
    request = fake_agent.requests.get()
    assert request["pids"] == [int(result.stdout.split()[0])]
    assert (request["follow"], request["rate_hz"], request["transport"]) == (True, 997, "rings")
    path = only_capture(tmp_path)
    assert path.name.startswith("train-")
    assert path.name.endswith(f"-p{request['pids'][0]}.pillion")
    assert pillion.open(path).events.num_rows == 4
    assert not (path / "capture.spool").exists()


def test_standard_output_is_the_commands_own(cli: Run, fake_agent: FakeAgent) -> None:
    result = cli("run", "--", "echo", "data")
    assert result.stdout == "data\n"
    assert "forward" in result.stderr  # the summary


def test_the_last_lines_say_where_how_large_and_how_to_look(cli: Run, fake_agent: FakeAgent, tmp_path: Path) -> None:
    result = cli("run", "-o", "out", "--", "true")
    assert "lost: nothing" in result.stderr
    capture, look = result.stderr.splitlines()[-2:]
    assert "out" in capture
    assert "MB" in capture
    assert "pillion report out" in look


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 128 + signal.SIGKILL)])
def test_the_exit_code_is_the_commands(cli: Run, fake_agent: FakeAgent, script: str, code: int) -> None:
    assert cli("run", "-o", "out", "--", "sh", "-c", script).returncode == code


def test_usdt_does_not_ask_the_job_for_rings(cli: Run, fake_agent: FakeAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILLION_RECORD", "1")
    result = cli("run", "--transport", "usdt", "--", "sh", "-c", "echo ${PILLION_RECORD-unset}")
    assert result.stdout == "unset\n"


def test_a_command_that_does_not_exist_is_127_and_leaves_nothing(
    cli: Run, fake_agent: FakeAgent, tmp_path: Path
) -> None:
    result = cli("run", "-o", "out", "--", "no-such-command")
    assert result.returncode == 127
    assert result.stderr == "pillion: cannot run no-such-command: no such command; check its name and PATH\n"
    assert not list(tmp_path.iterdir())


def test_a_command_that_the_kernel_refuses_is_126_and_leaves_nothing(
    cli: Run, fake_agent: FakeAgent, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF no program")
    program.chmod(0o755)
    result = cli("run", "-o", "out", "--", "./program")
    assert result.returncode == 126
    assert result.stderr.startswith("pillion: cannot run ./program: Exec format error")
    assert [path.name for path in tmp_path.iterdir()] == ["program"]


def test_a_refused_recording_does_not_start_the_command(cli: Run, fake_agent: FakeAgent, tmp_path: Path) -> None:
    fake_agent.script.refusal = {"ok": False, "error": "cannot record", "cause": "no BTF", "fix": "fix it", "code": 3}
    result = cli("run", "-o", "out", "--", "touch", "started")
    assert (result.returncode, result.stderr) == (3, "pillion: cannot record: no BTF; fix it\n")
    assert not list(tmp_path.iterdir())


def test_no_command_is_a_usage_error(cli: Run) -> None:
    result = cli("run", "-r", "99", "--")
    assert result.returncode == 2
    assert result.stderr == "pillion: nothing to run: no command was given; pillion run [options] -- CMD …\n"


def test_without_an_agent_and_without_root_it_says_how_to_get_one(tmp_path: Path, socket_directory: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to drop it")
    socket_directory.chmod(0o755)
    code = (
        "import os, sys, pillion.cli; pillion._preloaded = __import__('pillion.commands.run'); os.setuid(65534);"
        "sys.exit(pillion.cli.main(['run', '--', 'true']))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd="/tmp", stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 3
    assert result.stderr.startswith("pillion: no agent runs: ")
    assert result.stderr.endswith("; `sudo pillion agent start`\n")
    assert result.stderr.count("\n") == 1


def test_an_agent_that_dies_leaves_the_job_alone_and_what_was_recorded(
    cli: Run, fake_agent: FakeAgent, tmp_path: Path
) -> None:
    fake_agent.script.then = "die"
    result = cli("run", "-o", "out", "--", "sh", "-c", "sleep 0.2; touch finished")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("pillion: the agent ended in the middle: ")
    assert (tmp_path / "finished").exists()
    assert pillion.open(tmp_path / "out").events.num_rows == 4


def test_an_agent_that_dies_does_not_hide_the_commands_own_failure(cli: Run, fake_agent: FakeAgent) -> None:
    fake_agent.script.then = "die"
    result = cli("run", "-o", "out", "--", "sh", "-c", "exit 7")
    assert result.returncode == 7
    assert "the agent ended in the middle" in result.stderr


def test_a_duration_ends_the_recording_not_the_command(cli: Run, fake_agent: FakeAgent, tmp_path: Path) -> None:
    result = cli("run", "-o", "out", "-d", "10ms", "--", "sh", "-c", "while [ ! -e out/meta.json ]; do :; done; exit 5")
    assert result.returncode == 5
    assert "goes on" in result.stderr


def test_an_interrupt_reaches_the_command_and_saves(
    fake_agent: FakeAgent, socket_directory: Path, tmp_path: Path
) -> None:
    job = "trap 'exit 9' INT; echo ready; while :; do :; done"
    command = [sys.executable, "-m", "pillion", "run", "-o", "out", "--", "sh", "-c", job]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 9
    process.stdout.close()
    assert pillion.open(tmp_path / "out").events.num_rows == 4


def test_tables_that_cannot_be_written_leave_the_job_alone_and_the_spool_readable(
    cli: Run, fake_agent: FakeAgent, tmp_path: Path
) -> None:
    job = "mkdir out/.events.arrow.part; touch running"  # where the first table would be written
    result = cli("run", "-o", "out", "--", "sh", "-c", job)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].endswith("nothing is lost: `pillion report out` reads the spool")
    assert pillion.open(tmp_path / "out").events.num_rows == 4
