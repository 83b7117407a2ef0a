"""Programs whose answer is known, recorded by the real agent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capture_questions import losses, range_names, stack_names, thread_row, weight_by_function

Recording = Callable[..., Any]
Target = Callable[..., Any]


def stolen_ns() -> int:
    """What the host took from the virtual CPUs since boot: a thread is on its CPU then, and gets no CPU time."""
    ticks = int(Path("/proc/stat").read_text().split()[8])
    return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def test_two_python_functions_are_sampled_as_they_burned(recording: Recording, target: Target) -> None:
    victim = target("burn_70_30", 6, wait=True)
    session = recording(victim.pid, rate_hz=997)
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    capture = session.finish()
    totals = dict.fromkeys(("burn_seven", "burn_three"), 0)
    for stack, weight_ns in zip(capture.columns["samples"]["stack"], capture.columns["samples"]["weight_ns"]):
        for name in totals.keys() & set(stack_names(capture, stack, "python")):
            totals[name] += int(weight_ns)
    share = totals["burn_seven"] / sum(totals.values())
    expected = truth["seven_ns"] / (truth["seven_ns"] + truth["three_ns"])
    assert share == pytest.approx(expected, abs=0.03)
    # And not only the ratio: the samples stand for the time that the thread was on a CPU.
    on_cpu_ns = thread_row(capture, victim.facts["tid"])["on_cpu_ns"]
    assert int(capture.columns["samples"]["weight_ns"].sum()) == pytest.approx(on_cpu_ns, rel=0.05)
    assert not losses(capture)


def test_two_native_functions_are_sampled_as_they_burned(
    recording: Recording, target: Target, compile_c: Callable[..., Path]
) -> None:
    victim = target(compile_c("native_burn.c"), 3, wait=True)
    session = recording(victim.pid, rate_hz=997)
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    capture = session.finish()
    weights = dict.fromkeys(("hot_a", "hot_b"), 0)
    called_by_main_ns = 0
    samples = capture.columns["samples"]
    for stack, weight_ns in zip(samples["stack"], samples["weight_ns"]):
        names = stack_names(capture, stack, "native")
        for name in weights.keys() & set(names):
            weights[name] += int(weight_ns)
            called_by_main_ns += int(weight_ns) * ("main" in names[names.index(name) :])
    # By frame pointers. A function that has not yet saved its own hides its caller.
    assert called_by_main_ns > 0.9 * sum(weights.values())
    share = weights["hot_a"] / sum(weights.values())
    assert share == pytest.approx(truth["hot_a_ns"] / (truth["hot_a_ns"] + truth["hot_b_ns"]), abs=0.03)


def test_native_functions_have_their_names_in_another_root_and_when_their_file_is_gone(
    recording: Recording, target: Target, compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    program = tmp_path / "native_burn"
    shutil.copy(compile_c("native_burn.c", "-static"), program)
    in_root = target(Path(shutil.which("chroot") or "chroot"), tmp_path, "/native_burn", "1", wait=True)
    without_file = target(program, 1, wait=True)
    program.unlink()
    session = recording(in_root.pid, without_file.pid, rate_hz=499)
    for victim in (in_root, without_file):
        victim.go()
        victim.answer()
    capture = session.finish()
    samples = capture.columns["samples"]
    for victim in (in_root, without_file):
        of_victim = np.unique(samples["stack"][samples["pid"] == victim.pid])
        assert {"hot_a", "hot_b"} <= {name for stack in of_victim for name in stack_names(capture, int(stack))}


def test_time_on_and_off_the_cpu_is_the_wall_time(recording: Recording, target: Target) -> None:
    victim = target("burn_and_wait", wait=True)
    stolen_before_ns = stolen_ns()
    session = recording(victim.pid)
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    capture = session.finish()
    row = thread_row(capture, truth["tid"])
    wall_ns = row["last_ns"] - row["first_ns"]
    assert row["on_cpu_ns"] + row["off_cpu_ns"] == pytest.approx(wall_ns, rel=0.01)
    # The interpreter's end is not part of the answer.
    assert truth["cpu_ns"] * 0.99 < row["on_cpu_ns"] < truth["cpu_ns"] * 1.05 + 30e6 + stolen_ns() - stolen_before_ns
    waits = capture.columns["waits"]
    mine = waits["tid"] == truth["tid"]
    assert (waits["end_ns"] - waits["start_ns"])[mine].sum() >= truth["asleep_ns"] * 0.98


def test_a_sleep_in_a_range_is_off_cpu_time_of_that_range(recording: Recording, target: Target) -> None:
    victim = target("sleep_in_range", wait=True)
    session = recording(victim.pid)
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    capture = session.finish()
    waits = capture.columns["waits"]
    of_nap = np.array(range_names(capture, "waits")) == "nap"
    asleep = of_nap & (waits["state"] != 0)
    assert (waits["end_ns"] - waits["start_ns"])[of_nap].sum() == pytest.approx(truth["nap_ns"], rel=0.02)
    assert asleep.sum() >= truth["naps"]
    assert range_names(capture).count("nap") == truth["naps"]
    # A wait names the very range that was open, not one that happened to overlap.
    events = capture.columns["events"]
    for row in np.flatnonzero(of_nap):
        event = waits["event"][row]
        assert events["start_ns"][event] <= waits["start_ns"][row]
        assert waits["end_ns"][row] <= events["end_ns"][event] + 1_000_000


def test_a_thread_that_sleeps_all_the_time_is_seen(recording: Recording, target: Target) -> None:
    """It never meets the scheduler while it is recorded."""
    victim = target("burn_and_wait", wait=True)  # waits for a line
    while "S (sleeping)" not in Path(f"/proc/{victim.pid}/status").read_text():
        os.sched_yield()
    session = recording(victim.pid)
    capture = session.finish()
    row = thread_row(capture, victim.facts["tid"])
    assert row["on_cpu_ns"] == 0
    assert row["off_cpu_ns"] == row["last_ns"] - row["first_ns"] > 0
    assert len(capture.columns["waits"]["tid"]) == 1


def test_every_range_arrives(recording: Recording, target: Target) -> None:
    # A ring that holds them all: whatever else keeps the machine busy, none may be missing.
    victim = target("count_ranges", 1_000_003, wait=True, env={"PILLION_RING_RECORDS": str(1 << 20)})
    session = recording(victim.pid)
    victim.go()
    session.wait_for_end()
    assert victim.answer()["ranges"] == 1_000_003
    capture = session.finish()
    assert range_names(capture).count("counted") + losses(capture).get("ring_full", 0) == 1_000_003
    assert not losses(capture)


def test_ranges_that_find_the_ring_full_are_counted(recording: Recording, target: Target) -> None:
    victim = target("count_ranges", 1_000_003, wait=True, env={"PILLION_RING_RECORDS": "64"})
    session = recording(victim.pid)
    victim.go()
    session.wait_for_end()
    victim.answer()
    capture = session.finish()
    lost = losses(capture)
    assert lost["ring_full"] > 0
    assert range_names(capture).count("counted") + lost["ring_full"] == 1_000_003


@pytest.mark.parametrize("threads", [7])
def test_every_thread_has_its_functions(recording: Recording, target: Target, threads: int) -> None:
    victim = target("busy_threads", threads, wait=True)
    stolen_before_ns = stolen_ns()
    session = recording(victim.pid, rate_hz=499)
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    capture = session.finish()
    samples = capture.columns["samples"]
    for index, tid in enumerate(victim.facts["tids"]):
        mine = samples["stack"][samples["tid"] == tid]
        names = {name for stack in mine for name in stack_names(capture, stack, "python")}
        assert f"spin_{index}" in names
        assert not names & {f"spin_{other}" for other in range(threads) if other != index}
        cpu_ns, on_cpu_ns = truth["cpu_ns"][index], thread_row(capture, tid)["on_cpu_ns"]
        assert cpu_ns * 0.97 < on_cpu_ns < cpu_ns * 1.05 + 20e6 + stolen_ns() - stolen_before_ns
    assert weight_by_function(capture, "python")
