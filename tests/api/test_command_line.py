"""The command line itself, ``agent``, ``doctor``, and how an agent is started."""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from pathlib import Path

import pytest
from fake_agent import FakeAgent
from pillion_command import Run

import pillion
from pillion._agent_process import start_agent
from pillion.commands import _options


def fake_agent_python(folder: Path, script: str) -> str:
    """A "Python" that has bcc and in which ``-m pillion_agent`` is a shell script; $READY is the ready pipe."""
    path = folder / "python"
    path.write_text(
        "#!/bin/sh\n"
        '[ "$1" = -c ] && exit 0\n'
        "ARGUMENTS=$*\n"
        'while [ $# -gt 0 ]; do [ "$1" = --ready-fd ] && READY=$2; shift; done\n'
        f"{script}\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_version(cli: Run) -> None:
    assert cli("--version").stdout == f"pillion {pillion.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "required: VERB"),
        (["sing"], "invalid choice: 'sing'"),
        (["record", "--bogus", "-a"], "unrecognized arguments: --bogus"),
        (["run", "--bogus", "--", "true"], "--bogus"),
        (["record"], "one of the arguments -p/--pid -a/--all is required"),
        (["record", "-p", "x"], "'x' is no process id"),
        (["record", "-p", "0"], "'0' is no process id"),
        (["record", "-a", "-d", "soon"], "'soon' is no duration"),
        (["record", "-a", "-r", "-1"], "rate"),
        (["record", "-a", "-r", "99999"], "no rate in Hz"),
    ],
)
def test_wrong_usage_is_one_line_and_2(cli: Run, arguments: list[str], why: str) -> None:
    result = cli(*arguments)
    assert result.returncode == 2
    assert result.stderr.startswith("pillion: ")
    assert why in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("500ms", 0.5), ("2m", 120), ("1h", 3600), ("7", 7), ("0.5", 0.5), ("1.5s", 1.5)]
)
def test_durations(text: str, seconds: float) -> None:
    assert _options.duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-1s", "s", "1d", "1e9", "nan", "inf", "1 2"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        _options.duration_s(text)


def test_agent_status_and_stop(cli: Run, fake_agent: FakeAgent) -> None:
    status = json.loads(cli("agent", "status", "--json").stdout)
    assert status["pid"] == os.getpid()
    assert f"process {os.getpid()}" in cli("agent", "status").stdout
    assert cli("agent", "stop").stdout == "the agent has ended\n"


def test_agent_start_finds_the_one_that_runs(cli: Run, fake_agent: FakeAgent) -> None:
    assert json.loads(cli("agent", "start", "--json").stdout)["started"] is False


def test_agent_status_without_one_is_3(cli: Run) -> None:
    result = cli("agent", "status")
    assert result.returncode == 3
    assert result.stderr.startswith("pillion: no agent runs: ")


@pytest.mark.usefixtures("require_root")
def test_a_python_without_bcc_is_named_with_the_package_that_mends_it(cli: Run) -> None:
    result = cli("agent", "start", environment={"PILLION_AGENT_PYTHON": "/bin/false"})
    assert result.returncode == 3
    assert result.stderr == (
        "pillion: no Python with bcc: not /bin/false; "
        "`sudo apt-get install python3-bpfcc` (PyPI's bcc is another package)\n"
    )


@pytest.mark.usefixtures("require_root")
def test_an_agent_that_cannot_start_says_why_itself(cli: Run, tmp_path: Path) -> None:
    answer = json.dumps({"ok": False, "error": "cannot load", "cause": "no BTF", "fix": "another kernel", "code": 3})
    python = fake_agent_python(tmp_path, f"echo '{answer}' > /dev/fd/$READY")
    result = cli("agent", "start", environment={"PILLION_AGENT_PYTHON": python})
    assert (result.returncode, result.stderr) == (3, "pillion: cannot load: no BTF; another kernel\n")


@pytest.mark.usefixtures("require_root")
def test_an_agent_that_dies_at_once_is_reported_with_its_log(cli: Run, tmp_path: Path, socket_directory: Path) -> None:
    python = fake_agent_python(tmp_path, "echo reason >&2; exit 5")
    result = cli("agent", "start", environment={"PILLION_AGENT_PYTHON": python})
    assert result.returncode == 3
    assert "it exited with 5" in result.stderr
    assert str(socket_directory / "agent.log") in result.stderr
    assert (socket_directory / "agent.log").read_text() == "reason\n"


WITHOUT_PSUTIL = """#!{python}
import runpy, sys
if sys.argv[1] != "-c":
    sys.modules["psutil"] = None
    sys.argv = [__file__, *sys.argv[3:]]
    sys.path[:0] = {packages!r}
    runpy.run_module("pillion_agent", run_name="__main__")
"""


@pytest.mark.usefixtures("require_root")
def test_an_agent_without_psutil_says_what_mends_it(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "python"
    packages = [entry for entry in sys.path if entry]
    path.write_text(WITHOUT_PSUTIL.format(python=sys.executable, packages=packages))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    result = cli("agent", "start", environment={"PILLION_AGENT_PYTHON": str(path)})
    assert (result.returncode, result.stderr) == (
        3,
        f"pillion: cannot start: {sys.executable} has no psutil; `sudo apt-get install python3-psutil`\n",
    )
    assert "missing  psutil: " in cli("doctor", environment={"PILLION_AGENT_PYTHON": str(path)}).stdout


@pytest.mark.usefixtures("require_root")
def test_an_agent_is_started_apart_from_its_client_and_is_ready_when_it_says_so(
    tmp_path: Path, socket_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "said"
    python = fake_agent_python(tmp_path, f"echo $(pwd) $ARGUMENTS > {said}; echo '{{\"ok\": true}}' > /dev/fd/$READY")
    monkeypatch.setenv("PILLION_AGENT_PYTHON", python)
    start_agent(idle_exit=True)
    folder, *arguments = said.read_text().split()
    assert folder == "/"  # nothing of the current folder is in a root process's way
    assert arguments[:4] == ["-m", "pillion_agent", "--socket-dir", str(socket_directory)]
    assert "--idle-exit" in arguments


@pytest.mark.usefixtures("require_root")
def test_another_python_is_given_our_packages_and_nothing_else(
    cli: Run, tmp_path: Path, socket_directory: Path
) -> None:
    python = fake_agent_python(tmp_path, "echo $PYTHONPATH >&2; exit 5")
    cli("agent", "start", environment={"PILLION_AGENT_PYTHON": python})
    folder = Path((socket_directory / "agent.log").read_text().strip())
    assert sorted(path.name for path in folder.iterdir()) == ["pillion", "pillion_agent", "pillion_probes"]
    assert (folder / "pillion" / "_client.py").exists()


@pytest.mark.usefixtures("require_root")
def test_doctor_says_what_mends_what_the_self_test_misses(cli: Run, tmp_path: Path) -> None:
    checks = [{"check": "BTF", "ok": False, "detail": "no /sys/kernel/btf", "fix": "boot another kernel"}]
    environment = {"PILLION_AGENT_PYTHON": fake_agent_python(tmp_path, f"echo '{json.dumps(checks)}'")}
    result = cli("doctor", environment=environment)
    assert result.returncode == 3
    assert "missing  BTF: no /sys/kernel/btf; boot another kernel\n" in result.stdout
    answer = json.loads(cli("doctor", "--json", environment=environment).stdout)
    assert answer["ok"] is False
    assert {**checks[0], "required": True} in answer["checks"]


@pytest.mark.usefixtures("require_root")
def test_doctor_is_content_when_everything_is_there(cli: Run, tmp_path: Path) -> None:
    python = fake_agent_python(tmp_path, """echo '[{"check": "BTF", "ok": true}]'""")
    result = cli("doctor", environment={"PILLION_AGENT_PYTHON": python})
    assert result.returncode == 0, result.stdout
    assert result.stdout.endswith("recording works\n")
