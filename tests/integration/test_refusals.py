"""What may not be recorded, or not be written: refused in one line, and nothing is left of the try."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from capture_questions import losses, range_names
from own_agent import OTHER_USER, THIRD_USER, OwnAgent

import pillion
from pillion import PillionError

Target = Callable[..., Any]

ANOTHER_USERS = "it belongs to another user"
BEGAN = "pillion: recording; Ctrl-C ends it and saves"
PRIVILEGED = "it has privileges of its own, or hides from its user"


@contextmanager
def process_with(code: str) -> Iterator[int]:
    """The pid of a Python that has run the code and lives on."""
    command = [sys.executable, "-c", f"import ctypes, os, sys\n{code}\nprint(flush=True)\nsys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process.pid


def one_line(result: subprocess.CompletedProcess[str]) -> tuple[int, str]:
    """Exit code and the line on stderr."""
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.returncode, result.stderr.rstrip("\n")


# ---- whose process ----


@pytest.mark.parametrize(
    ("become", "cause"),
    [
        ("", ANOTHER_USERS),
        (f"os.setresuid(*[{THIRD_USER}] * 3)", ANOTHER_USERS),
        (f"os.setresuid({OTHER_USER}, 0, 0)", ANOTHER_USERS),  # what a set-user-ID program of root is
        (f"os.setresuid({OTHER_USER}, {OTHER_USER}, 0)", ANOTHER_USERS),  # what it is while it plays safe
        (f"os.setresuid(*[{OTHER_USER}] * 3); ctypes.CDLL(None).prctl(4, 0)", PRIVILEGED),  # PR_SET_DUMPABLE
    ],
    ids=["root", "third user", "effective root", "saved root", "not dumpable"],
)
def test_a_user_may_not_record_what_is_not_his(
    public_agent: OwnAgent, user_folder: Path, become: str, cause: str
) -> None:
    with process_with(become) as pid:
        result = public_agent.pillion("record", "-p", pid, "-d", "1s", user=OTHER_USER, cwd=user_folder)
        fix = "record it as root"
        assert one_line(result) == (1, f"pillion: may not record process {pid}: {cause}; {fix}")
    assert not list(user_folder.iterdir())
    assert public_agent.sessions() == 0


def test_a_user_may_not_record_the_machine(public_agent: OwnAgent, user_folder: Path) -> None:
    result = public_agent.pillion("record", "-a", "-d", "1s", user=OTHER_USER, cwd=user_folder)
    assert one_line(result) == (
        1,
        "pillion: may not record all processes: you are not root; use sudo, or -p for your own",
    )
    assert not list(user_folder.iterdir())


def test_a_user_may_not_end_the_agent(public_agent: OwnAgent, user_folder: Path) -> None:
    result = public_agent.pillion("agent", "stop", user=OTHER_USER, cwd=user_folder)
    assert one_line(result) == (1, "pillion: may not stop the agent: you are not root; use sudo")
    assert public_agent.sessions() == 0


def test_a_user_records_his_own_process(public_agent: OwnAgent, user_folder: Path, target: Target) -> None:
    socket = {"PILLION_SOCKET": str(public_agent.directory)}
    victim = target("count_ranges", 10_007, wait=True, user=OTHER_USER, env=socket)
    command = [sys.executable, "-m", "pillion", "record", "-p", str(victim.pid), "-r", "997", "-o", "out"]
    recorder = subprocess.Popen(
        command,
        cwd=user_folder,
        env={**os.environ, **socket},
        user=OTHER_USER,
        group=OTHER_USER,
        extra_groups=[],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    public_agent.wait_for_sessions(1)
    victim.go()
    _, said = recorder.communicate(timeout=60)
    victim.answer()
    assert (recorder.returncode, said) == (0, f"{BEGAN}\npillion: every recorded process has ended\n")
    capture = pillion.open(user_folder / "out")
    assert range_names(capture).count("counted") == 10_007
    assert len(capture.columns["samples"]["tid"]) > 0
    assert not losses(capture)
    assert {path.stat().st_uid for path in (user_folder / "out").iterdir()} == {OTHER_USER}


def test_a_users_own_command_is_run_and_recorded(public_agent: OwnAgent, user_folder: Path) -> None:
    code = (
        "import os\nfrom pillion import record_function\n"
        "for _ in range(101):\n with record_function('mine'): pass\n"
        "print(os.getuid())\n"
    )
    result = public_agent.pillion(
        "run", "-o", "out", "--", sys.executable, "-c", code, user=OTHER_USER, cwd=user_folder
    )
    assert (result.returncode, result.stdout) == (0, f"{OTHER_USER}\n"), result.stderr
    assert range_names(pillion.open(user_folder / "out")).count("mine") == 101


def test_a_child_that_is_not_the_users_is_left_out_of_what_he_records(
    public_agent: OwnAgent, user_folder: Path
) -> None:
    """A shell in which sudo runs can be recorded, sudo cannot."""
    code = (
        f"if os.fork() == 0:\n os.setresuid({OTHER_USER}, 0, 0); print(flush=True); sys.stdin.read()\n"
        f"else:\n os.setresuid(*[{OTHER_USER}] * 3); os.execvp('cat', ['cat'])"  # the exec makes it the user's
    )
    client = (
        "import os, sys, pillion._client as c\n"
        "with c.AgentClient() as agent, open('spool', 'w+b') as spool:\n"
        " agent.record(c.RecordRequest(pids=({},), follow=True), spool.fileno()); agent.finish()\n"
        "import pillion._capture as p\n"
        "print(sorted(map(int, p.read_spool_capture(open('spool', 'rb')).columns['processes']['pid'])))"
    )
    command = [sys.executable, "-c", f"import os, sys\n{code}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        while Path(f"/proc/{process.pid}/comm").read_text() != "cat\n":
            pass
        result = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", client.format(process.pid)],
            cwd=user_folder,
            env={**os.environ, "PILLION_SOCKET": str(public_agent.directory)},
            user=OTHER_USER,
            group=OTHER_USER,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (result.stdout, result.stderr) == (f"[{process.pid}]\n", "")


# ---- processes that end ----


def test_a_zombie_is_no_process(public_agent: OwnAgent, tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        result = public_agent.pillion("record", "-p", child.pid, "-d", "60s", cwd=tmp_path)
    assert one_line(result) == (1, f"pillion: cannot record process {child.pid}: no such process; see `ps`")
    assert not list(tmp_path.iterdir())


def test_a_process_that_ends_while_it_is_attached_is_refused_or_ends_the_recording(
    public_agent: OwnAgent, record_with: Callable[..., Any]
) -> None:
    """Each ends at another moment of the agent's work, the first once it is attached; none is waited for in vain."""
    refusals = {}
    files = public_agent.open_files()
    for number in range(61):
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
            assert child.stdin
            if number:
                child.stdin.close()
            try:
                session = record_with(public_agent, child.pid)
                child.stdin.close()
                session.wait_for_end()
                session.finish()
            except PillionError as error:
                refusals[child.pid] = str(error)
    assert refusals == {pid: f"cannot record process {pid}: no such process; see `ps`" for pid in refusals}
    assert len(refusals) < 61  # which of the others were too late is up to the machine
    assert public_agent.sessions() == 0
    assert public_agent.open_files() == files


def test_a_process_that_ends_ends_the_recording(public_agent: OwnAgent, tmp_path: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        command = [sys.executable, "-m", "pillion", "record", "-p", str(child.pid), "-o", "out"]
        environment = {**os.environ, "PILLION_SOCKET": str(public_agent.directory)}
        recorder = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        public_agent.wait_for_sessions(1)
        child.communicate()
        _, said = recorder.communicate(timeout=60)
    assert recorder.returncode == 0
    assert said.splitlines()[-1] == "pillion: every recorded process has ended"
    assert list(pillion.open(tmp_path / "out").columns["processes"]["pid"]) == [child.pid]


# ---- where it goes ----


def test_a_refused_recording_leaves_the_capture_that_it_would_replace(
    public_agent: OwnAgent, tmp_path: Path, target: Target
) -> None:
    victim = target("sleep_in_range", wait=True)
    assert public_agent.pillion("record", "-p", victim.pid, "-d", "10ms", "-o", "out", cwd=tmp_path).returncode == 0
    before = {path.name: path.stat().st_ino for path in (tmp_path / "out").iterdir()}
    again = ["record", "-p", victim.pid, "-d", "10ms", "-o", "out"]
    refused = public_agent.pillion(*again, cwd=tmp_path)
    assert one_line(refused) == (1, "pillion: cannot write out: it exists; add --force, or name another with -o")
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        refused = public_agent.pillion("record", "-p", child.pid, "-o", "out", "--force", cwd=tmp_path)
        assert refused.returncode == 1
    assert {path.name: path.stat().st_ino for path in (tmp_path / "out").iterdir()} == before
    assert public_agent.pillion(*again, "--force", cwd=tmp_path).returncode == 0
    assert {path.name: path.stat().st_ino for path in (tmp_path / "out").iterdir()} != before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_a_user_may_not_write_to_is_named(public_agent: OwnAgent, user_folder: Path) -> None:
    user_folder.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    os.chown(user_folder, 0, 0)
    arguments = ["run", "-o", user_folder / "out", "--", "touch", "started"]
    result = public_agent.pillion(*arguments, user=OTHER_USER, cwd=user_folder)
    fix = "name a folder that can be written with -o"
    assert one_line(result) == (1, f"pillion: cannot write {user_folder / 'out'}: Permission denied; {fix}")
    assert not list(user_folder.iterdir())
    assert public_agent.sessions() == 0


def test_a_full_disk_ends_the_recording_and_leaves_the_job_alone(public_agent: OwnAgent, tmp_path: Path) -> None:
    """100,003 ranges are 6 MB, the disk has 1; the first tenth is on it before the others come."""
    job = (
        "import os\nfrom pillion import record_function\n"
        "def emit(count):\n"
        " for _ in range(count):\n"
        "  with record_function('counted'): pass\n"
        "emit(10_007)\n"
        "while os.stat('disk/out/capture.spool').st_size < 10_007 * 64: pass\n"
        "emit(100_003)\n"
        "print('the job is done')\n"
    )
    (tmp_path / "job.py").write_text(job)
    (tmp_path / "disk").mkdir()
    pillion_command = f"{sys.executable} -m pillion"
    script = (
        f"mount -t tmpfs -o size=1m none disk\n"
        f"{pillion_command} run -o disk/out -- {sys.executable} job.py\n"
        "echo code $?\n"
        f"{pillion_command} report --json disk/out\n"
    )
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PILLION_SOCKET": str(public_agent.directory)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    done, code, report = result.stdout.split("\n", 2)
    assert (done, code) == ("the job is done", "code 1")
    (row,) = json.loads(report)["rows"]
    assert row["name"] == "counted"
    assert 1_009 < row["calls"] < 110_010
    said = [line for line in result.stderr.splitlines() if line.startswith("pillion: ")]
    why, *also = [line for line in said if not line.endswith("goes on")]  # whether the job does is up to the machine
    assert why == (
        "pillion: recording stopped: cannot write the capture: No space left on device; "
        "what was recorded until then is kept; make room"
    )
    tables = (
        "pillion: cannot write disk/out: No space left on device; "
        "nothing is lost: `pillion report disk/out` reads the spool"
    )
    assert also in ([], [tables])  # what was recorded may fit as tables
    assert public_agent.sessions() == 0


def test_a_thread_is_not_taken_for_a_process(public_agent: OwnAgent, tmp_path: Path) -> None:
    """/proc and kill() know it by its number, so it would be a recording without anything in it."""
    code = "import threading; t = threading.Thread(target=sys.stdin.read); t.start(); print(t.native_id)"
    command = [sys.executable, "-c", f"import sys; {code}; sys.stdout.flush()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        thread = int(process.stdout.readline())
        result = public_agent.pillion("record", "-p", thread, "-d", "1s", "-o", "out", cwd=tmp_path)
    cause = f"it is a thread of process {process.pid}; record process {process.pid}"
    assert one_line(result) == (1, f"pillion: cannot record process {thread}: {cause}")
    assert not list(tmp_path.iterdir())
