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


def test_a_script_that_does_not_say_what_runs_it_is_the_shells(cli: Run, fake_agent: FakeAgent, tmp_path: Path) -> None:
    (tmp_path / "script").write_text('echo "$1"; exit 6\n')
    (tmp_path / "script").chmod(0o755)
    result = cli("run", "-o", "out", "--", "./script", "an argument")
    assert (result.returncode, result.stdout) == (6, "an argument\n")


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


COUNTS_SIGNALS = """
import signal, sys, threading
got = []
for name in sys.argv[1].split(","):
    signal.signal(getattr(signal, name), lambda number, frame: got.append(signal.Signals(number).name))
signal.signal(signal.SIGWINCH, lambda number, frame: sys.exit(f"{','.join(got)}"))
print("ready", flush=True)
while True:
    signal.pause()
"""


def signalled(folder: Path, *numbers: signal.Signals) -> tuple[int, str, str]:
    """Exit code of a run that gets these signals one after the other, what its command got, what else was said."""
    names = ",".join(dict.fromkeys(number.name for number in numbers))
    command = [sys.executable, "-m", "pillion", "run", "-o", "out", "--", sys.executable, "-c", COUNTS_SIGNALS, names]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for number in numbers:
        caught = _switches(child)
        process.send_signal(number)
        while _switches(child) == caught:
            assert process.poll() is None, process.communicate()
    os.kill(int(child), signal.SIGWINCH)
    _, said = process.communicate(timeout=60)
    got, _, rest = said.partition("\n")
    return process.returncode, got, rest


def _switches(pid: str) -> str:
    """Changes whenever the process has been woken."""
    return Path(f"/proc/{pid}/status").read_text().partition("voluntary_ctxt_switches:")[2]


@pytest.mark.parametrize(
    "number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT, signal.SIGALRM], ids=lambda n: n.name
)
def test_a_signal_for_the_command_reaches_it_and_the_recording_goes_on(
    fake_agent: FakeAgent, tmp_path: Path, number: signal.Signals
) -> None:
    code, got, rest = signalled(tmp_path, number, number)
    assert (code, got) == (1, f"{number.name},{number.name}")
    assert "goes on" not in rest
    assert pillion.open(tmp_path / "out").events.num_rows == 4


def test_a_command_that_takes_its_time_to_terminate_may_be_told_again(fake_agent: FakeAgent, tmp_path: Path) -> None:
    code, got, rest = signalled(tmp_path, signal.SIGTERM, signal.SIGTERM, signal.SIGTERM)
    assert (code, got) == (1, "SIGTERM,SIGTERM,SIGTERM")
    assert "aborted" not in rest


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full"])
def test_streams_that_do_not_work_are_the_commands_and_its_exit_code_is_kept(
    fake_agent: FakeAgent, socket_directory: Path, tmp_path: Path, closed: str
) -> None:
    """The command finds the descriptors that it would find without us."""
    job = [
        sys.executable,
        "-c",
        "import os, sys; open('fds', 'w').write(str(os.listdir('/proc/self/fd'))); sys.exit(4)",
    ]
    shell = ["sh", "-c", f'"$@" {closed}', "sh"]
    subprocess.run([*shell, *job], cwd=tmp_path, check=False)
    bare = (tmp_path / "fds").read_text()
    recorded = subprocess.run(
        [*shell, sys.executable, "-m", "pillion", "run", "-o", "out", "--", *job], cwd=tmp_path, check=False
    )
    assert recorded.returncode == 4
    assert (tmp_path / "fds").read_text() == bare
    assert pillion.open(tmp_path / "out").events.num_rows == 4


def test_a_reader_of_messages_who_has_gone_ends_nothing(fake_agent: FakeAgent, tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "pillion", "run", "-o", "out", "-d", "10ms", "--", "sh", "-c"]
    job = "while [ ! -e out/meta.json ]; do :; done; exit 5"
    result = subprocess.run([*command, job], cwd=tmp_path, stderr=theirs, check=False)
    os.close(theirs)
    assert result.returncode == 5
