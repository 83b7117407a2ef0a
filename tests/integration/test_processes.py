"""Forks, execs, short lives and sudden deaths."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capture_questions import losses, range_names, stack_names

import pillion
from pillion_agent.procfs import find_regions
from pillion_probes import STRUCTS

Recording = Callable[..., Any]
Target = Callable[..., Any]


def test_children_are_followed_from_their_first_range(recording: Recording, target: Target) -> None:
    victim = target("fork_worker", wait=True)
    session = recording(victim.pid, follow=True)
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    capture = session.finish()
    names = range_names(capture)
    assert names.count("parent") == truth["parent"]
    assert names.count("child") == truth["child"]
    assert set(capture.columns["events"]["pid"]) == {victim.pid, *truth["pids"]}
    assert set(truth["pids"]) <= set(capture.columns["processes"]["pid"])
    assert not losses(capture)


def test_sessions_share_all_of_a_region_that_is_made_while_they_run(recording: Recording, target: Target) -> None:
    victim = target("count_ranges", 10_007, wait=True)
    sessions = [recording(victim.pid) for _ in range(3)]
    victim.go()
    for session in sessions:
        session.wait_for_end()
    victim.answer()
    for session in sessions:
        capture = session.finish()
        assert range_names(capture).count("counted") == 10_007
        assert not losses(capture)


def test_children_are_left_alone_without_follow(recording: Recording, target: Target) -> None:
    victim = target("fork_worker", wait=True)
    session = recording(victim.pid, follow=False)
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    capture = session.finish()
    assert range_names(capture).count("parent") == truth["parent"]
    assert set(capture.columns["processes"]["pid"]) == {victim.pid}


def test_processes_that_live_for_a_moment_leave_all_their_ranges(recording: Recording, target: Target) -> None:
    victim = target("short_lived", wait=True)
    session = recording(victim.pid, follow=True)
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    capture = session.finish()
    assert range_names(capture).count("brief") == truth["ranges"]
    assert not losses(capture)


def test_a_process_that_becomes_another_program_keeps_what_each_said(recording: Recording, target: Target) -> None:
    victim = target("exec_chain", wait=True, env={"PILLION_RECORD": "1"})
    session = recording(victim.pid, follow=True)
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    capture = session.finish()
    assert range_names(capture).count("link") == truth["ranges"]


def test_exec_in_another_thread_than_the_main_one_is_no_end(recording: Recording, target: Target) -> None:
    victim = target("exec_in_thread", wait=True)
    session = recording(victim.pid, follow=True)
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    capture = session.finish()
    assert range_names(capture).count("after") == truth["ranges"]
    assert any("--second" in line for line in capture.columns["processes"]["cmdline"]), "recorded beyond the exec"


def test_a_job_that_announces_itself_elsewhere_is_found(recording: Recording, target: Target, tmp_path: Path) -> None:
    """In a container, say, where the agent's socket is not to be seen."""
    victim = target("emit_on_demand", 101, env={"PILLION_SOCKET": str(tmp_path)})
    session = recording(victim.pid)
    victim.go()  # makes its region, which nobody hears of
    seen = session.wait_for(lambda progress: (victim.go(), progress.ranges > 0)[1])
    victim.answer()
    session.wait_for_end()
    capture = session.finish()
    assert range_names(capture).count("counted") >= seen.ranges - 1  # a record of the thread's name is among them
    assert not losses(capture)


def test_a_job_that_nobody_records_is_told_so(agent: Any, target: Target) -> None:
    """It records from its first range, in case the agent wants it."""
    from pillion._client import AgentClient

    victim = target("emit_on_demand", 101)
    victim.go()
    deadline_s = time.monotonic() + 30
    with AgentClient() as client:
        while time.monotonic() < deadline_s:
            client.status()  # an answer is a turn of the agent's loop
            regions = find_regions(victim.pid)
            # The answer may come before the first range has taken a ring; it rings the bell.
            if regions and region_word(regions[0], "bell") and not region_word(regions[0], "recording"):
                break
            if regions and region_word(regions[0], "consumer_pid") not in (0, agent.pid):
                pytest.skip("an agent of somebody else records the whole machine")
        else:
            pytest.fail("the job still records for nobody")
    assert victim.answer()["ranges"] == 101


def region_word(region: str, field: str) -> int:
    fmt, offset = STRUCTS["pln_region"].fields[field]
    with open(region, "rb") as file:
        return int(np.frombuffer(file.read(4096), fmt, 1, offset)[0])


def test_a_killed_job_leaves_its_whole_records(recording: Recording, target: Target) -> None:
    victim = target("count_ranges", 10_000_019, wait=True)
    session = recording(victim.pid)
    victim.go()
    session.wait_for(lambda progress: progress.ranges > 10_007)
    victim.kill(signal.SIGKILL)
    session.wait_for_end()
    capture = session.finish()
    names = range_names(capture)
    assert session.done is not None
    assert len(names) >= 10_007
    assert set(names) == {"counted"}
    assert (capture.columns["events"]["end_ns"] >= capture.columns["events"]["start_ns"]).all()


def test_the_first_sample_comes_soon_after_the_command(target: Target, agent: Any, tmp_path: Path) -> None:
    """Of a job that runs already and was not started by us; the command's own start included."""
    victim = target("burn_70_30", 30)
    command = [sys.executable, "-m", "pillion", "record", "-p", str(victim.pid), "-d", "2s", "-o", str(tmp_path / "c")]
    began_ns = time.monotonic_ns()
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    import pillion

    first_ns = int(np.min(pillion.open(tmp_path / "c").columns["samples"]["ts_ns"]))
    assert 0 < first_ns - began_ns < 1_500_000_000


def test_a_torch_job_that_runs_already_shows_all_of_itself(
    recording: Recording, target: Target, require_torch: None
) -> None:
    victim = target("torch_train")
    workers = set(victim.facts["workers"])
    session = recording(victim.pid, follow=True, rate_hz=499)
    session.wait_for(lambda progress: progress.samples > 1_009)
    capture = session.finish()
    victim.answer()
    samples, waits = capture.columns["samples"], capture.columns["waits"]
    assert workers <= set(samples["pid"]) | set(waits["pid"])
    by_process: dict[int, set[str]] = {}
    for table in (samples, waits):
        for pid, stack in zip(table["pid"], table["stack"]):
            by_process.setdefault(int(pid), set()).update(stack_names(capture, stack, "python"))
    assert "train_step" in by_process[victim.pid]
    for worker in workers:
        assert any("augment" in name for name in by_process[worker])
    kernel = {name for stack in waits["stack"] for name in stack_names(capture, stack, "kernel")}
    assert "__schedule" in kernel or "schedule" in kernel
    main_threads = {int(t) for t in samples["tid"][samples["pid"] == victim.pid]}
    assert len(main_threads) > 1, "autograd's and the thread pool's threads, too"
    assert not losses(capture)


def test_a_process_that_has_gone_is_refused_in_one_line(agent: Any, tmp_path: Path) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    command = [sys.executable, "-m", "pillion", "record", "-p", str(child.pid), "-d", "1s", "-o", str(tmp_path / "c")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "no such process" in result.stderr
    assert not (tmp_path / "c").exists()


def test_a_session_leaves_nothing_behind(recording: Recording, target: Target, agent: Any) -> None:
    """No program attached, no region open, no descriptor more than before."""

    def descriptors() -> int:
        return len(os.listdir(f"/proc/{agent.pid}/fd"))

    victim = target("sleep_in_range", wait=True)
    recording(victim.pid).finish()  # whatever opens once is open now
    before = descriptors()
    for _ in range(3):
        recording(victim.pid, rate_hz=997, transport="rings").finish()
        recording(victim.pid, transport="usdt").finish()
    from pillion._client import AgentClient

    with AgentClient() as client:  # answered after the last session's connection was dropped
        assert client.status()["sessions"] == []
    assert descriptors() <= before + 1


@pytest.mark.parametrize("transport", ["rings", "usdt"])
def test_both_transports_deliver_the_same_ranges(recording: Recording, target: Target, transport: str) -> None:
    victim = target("count_ranges", 10_007, wait=True)
    session = recording(victim.pid, transport=transport)
    victim.go()
    session.wait_for_end()
    victim.answer()
    capture = session.finish()
    events = capture.columns["events"]
    assert range_names(capture).count("counted") + sum(losses(capture).values()) == 10_007
    assert not losses(capture)
    assert (events["end_ns"] >= events["start_ns"]).all()
    assert (np.diff(events["start_ns"]) >= 0).all()
    assert set(events["tid"]) == {victim.facts["tid"]}


def test_programs_that_end_at_once_are_known_by_their_command_lines(recording: Recording, tmp_path: Path) -> None:
    """The kernel says it in the moment of the exec; when the agent looks most of them have gone."""
    script = 'read go; for i in $(seq 211); do /bin/true "of $i" "" "é" ""; done; exec env -i /bin/true end'
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE) as shell:
        session = recording(shell.pid, follow=True)
        assert shell.stdin
        shell.stdin.write(b"go\n")
        shell.stdin.close()
        shell.wait()
    session.wait_for_end()
    processes = session.finish().columns["processes"]
    cmdlines = sorted(processes["cmdline"])
    assert cmdlines == sorted([*(f"/bin/true of {i}  é" for i in range(1, 212)), "seq 211", "/bin/true end"])
    assert list(processes["comm"]).count("true") == 212
    assert set(processes["python_unavailable"]) == {None}


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("RLIMIT_FSIZE, (4096, 4096)", ({}, {"no_region": 1})),
        ("RLIMIT_NOFILE, (3, 64)", ({"step": 103}, {"no_ring": 101})),
    ],
    ids=["no room", "no descriptor for a while"],
)
def test_a_process_without_a_region_is_a_loss(
    agent: object, recording: Recording, limit: str, expected: tuple[dict[str, int], dict[str, int]]
) -> None:
    job = f"""
import resource
from pillion import record_function
input()
def steps(count):
    for _ in range(count):
        with record_function("step"):
            pass
resource.setrlimit(resource.{limit})
steps(101)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
steps(103)
"""
    with subprocess.Popen([sys.executable, "-c", job], stdin=subprocess.PIPE) as victim:
        session = recording(victim.pid)
        assert victim.stdin
        victim.stdin.write(b"\n")
        victim.stdin.close()
        assert victim.wait() == 0
    session.wait_for_end()
    capture = session.finish()
    assert ({name: range_names(capture).count(name) for name in set(range_names(capture))}, losses(capture)) == expected


def test_a_program_with_an_environment_of_its_own_is_said_to_tell_nothing(agent: Any, tmp_path: Path) -> None:
    """As behind `su -` or `env -i`; its children lack it too, and are not said to have lost it."""
    script = "env -i /bin/sh -c 'echo bare $$; /bin/true; /bin/true'; /bin/true"
    command = [sys.executable, "-m", "pillion", "run", "-o", str(tmp_path / "c"), "--", "/bin/sh", "-c", script]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    (notice,) = pillion.open(tmp_path / "c").meta["notices"]
    assert said.stdout.split() == ["bare", str(notice["pid"])]
    assert (notice["source"], "not recorded" in notice["text"]) == ("environment", True)


def test_a_python_older_than_its_runtime_is_named(
    recording: Recording, compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    source = tmp_path / "python2.7.c"
    source.write_text("""
const char *Py_GetVersion(void);
const char *Py_GetVersion(void) { return "2.7.18"; }
#include <unistd.h>
int main(void) { char byte; return write(1, "!", 1) == 1 && read(0, &byte, 1) == 0 ? 0 : 1; }
""")
    command = [compile_c(source, "-rdynamic")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as victim:
        assert victim.stdout
        victim.stdout.read(1)
        capture = recording(victim.pid).finish()
    (process,) = capture.processes.to_pylist()
    assert process["python"] == "2.7"
    assert process["python_unavailable"].startswith("CPython 2.7 is not known")
