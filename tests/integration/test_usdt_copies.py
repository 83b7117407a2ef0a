"""The probes of our own library in every copy of it that a recorded process has: records and stacks of launches."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from capture_questions import losses, range_names
from own_agent import OwnAgent

import pillion
from pillion.merge.spool import read_spool
from pillion_agent.usdt import library_path
from pillion_probes import CONSTANTS, HEADER_PATH

Recording = Callable[..., Any]
Target = Callable[..., Any]

CALL = CONSTANTS["PLN_CALL"]


def copy_packages(folder: Path) -> dict[str, str]:
    """Another installation, the job's own; the environment that makes a Python use it."""
    ignored = shutil.ignore_patterns("__pycache__", "*.bpf.c")
    shutil.copytree(Path(pillion.__file__).parent, folder / "pillion", ignore=ignored)
    shutil.copytree(HEADER_PATH.parent, folder / "pillion_probes", ignore=ignored)
    return {"PYTHONPATH": str(folder)}


@pytest.fixture
def another_installation(tmp_path: Path) -> dict[str, str]:
    return copy_packages(tmp_path / "packages")


def test_a_job_with_another_copy_of_the_library_is_recorded_through_its_probes(
    recording: Recording, target: Target, another_installation: dict[str, str]
) -> None:
    victim = target("count_ranges", 10_007, wait=True, env=another_installation)
    assert _library_of(victim.pid) != str(library_path().resolve())
    session = recording(victim.pid, transport="usdt", rate_hz=0)
    victim.go()
    session.wait_for_end()
    victim.answer()
    capture = session.finish()
    assert range_names(capture).count("counted") == 10_007
    assert not losses(capture)


def test_a_copy_that_only_the_job_can_see_is_found(recording: Recording, target: Target, tmp_path: Path) -> None:
    """In a mount namespace of its own, as a container has it: the path leads nowhere outside."""
    (tmp_path / "hidden").mkdir()
    script = f'mount -t tmpfs tmpfs {tmp_path}/hidden && cp -r {tmp_path}/packages {tmp_path}/hidden && exec "$@"'
    copy_packages(tmp_path / "packages")
    command = tmp_path / "in_container"
    command.write_text(f"#!/bin/sh\nexec unshare --mount sh -c '{script}' sh \"$@\"\n")
    command.chmod(0o755)
    program = Path(__file__).parent.parent / "targets" / "count_ranges.py"
    victim = target(
        command, sys.executable, program, "10007", "--wait", env={"PYTHONPATH": str(tmp_path / "hidden" / "packages")}
    )
    assert not Path(_library_of(victim.pid)).exists()
    session = recording(victim.pid, transport="usdt", rate_hz=0)
    victim.go()
    session.wait_for_end()
    victim.answer()
    capture = session.finish()
    assert range_names(capture).count("counted") == 10_007
    assert not losses(capture)


def test_records_of_every_kind_come_through_probes_with_both_strings(recording: Recording, target: Target) -> None:
    victim = target("every_record", wait=True)
    session = recording(victim.pid, transport="usdt", rate_hz=0)
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    capture = session.finish()
    events, names = capture.columns["events"], range_names(capture)
    texts = capture.columns["strings"]["text"]
    found = Counter((name, texts[row]) for name, row in zip(names, events["args"]))
    assert found == {("named", truth["args"]): 101, ("moment", ""): 103}
    assert [int(value) for name, value in zip(names, events["value"]) if name == "moment"] == list(range(103))
    assert not losses(capture)


def test_the_same_process_is_recorded_through_probes_again_with_its_names(recording: Recording, target: Target) -> None:
    victim = target("emit_on_demand", 101)
    for _ in range(2):
        session = recording(victim.pid, transport="usdt", rate_hz=0)
        victim.go()
        session.wait_for(lambda progress: progress.ranges >= 101)
        capture = session.finish()
        assert range_names(capture).count("counted") == 101
        assert not losses(capture)
    victim.answer()


def test_a_copy_whose_notes_are_damaged_is_a_loss(
    public_agent: OwnAgent, record_with: Recording, target: Target, another_installation: dict[str, str]
) -> None:
    library = Path(another_installation["PYTHONPATH"], "pillion", "libpillion.so")
    image = bytearray(library.read_bytes())
    at = image.index(b"stapsdt\0")
    image[at - 8 : at - 4] = (1 << 20).to_bytes(4, "little")
    library.write_bytes(image)
    victim = target("count_ranges", 101, wait=True, env=another_installation)
    files = public_agent.open_files()
    session = record_with(public_agent, victim.pid, transport="usdt", rate_hz=0)
    victim.go()
    session.wait_for_end()
    victim.answer()
    capture = session.finish()
    assert losses(capture) == {"probe_file_refused": 1}
    assert not range_names(capture).count("counted")
    assert public_agent.sessions() == 0
    assert public_agent.open_files() == files


def test_a_copy_whose_arguments_are_elsewhere_is_read_there_and_an_unreadable_one_is_a_loss(
    recording: Recording, target: Target, another_installation: dict[str, str]
) -> None:
    library = Path(another_installation["PYTHONPATH"], "pillion", "libpillion.so")
    image = library.read_bytes()
    assert b"range\x008@%rdi 8@%rsi 8@%rdx\0" in image
    library.write_bytes(image.replace(b"range\x008@%rdi 8@%rsi 8@%rdx\0", b"range\x008@%xmm 8@%rsi 8@%rdx\0"))
    victim = target("count_ranges", 101, wait=True, env=another_installation)
    session = recording(victim.pid, transport="usdt", rate_hz=0)
    victim.go()
    session.wait_for_end()
    victim.answer()
    assert losses(session.finish()) == {"probe_refused": 1}


def test_every_launch_has_the_stack_of_the_code_that_made_it(recording: Recording, target: Target) -> None:
    victim = target("launches", wait=True)
    session = recording(victim.pid, rate_hz=0, launch_stacks=True)
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    capture = session.finish()
    spool = read_spool(session.spool)
    calls = [sample for block in spool.samples for sample in block if sample["kind"] == CALL]
    assert [call["range_seq"] for call in calls] == truth["seqs"]
    events = capture.columns["events"]
    names = range_names(capture)
    launches = [row for row in range(len(names)) if names[row] == "cudaLaunchKernel"]
    assert len(launches) == truth["launches"] == 101
    for call, row in zip(calls, launches):
        assert call["pid"] == victim.pid
        assert call["tid"] == events["tid"][row]
        assert events["start_ns"][row] <= call["start_ns"] == call["end_ns"] <= events["end_ns"][row]
        stack = spool.objects["stack"][call["stack"],]
        frames = [spool.objects["frame"][frame,] for frame in stack["frames"]]
        python = [frame["name"] for frame in frames if frame["kind"] == "python"]
        assert python[:2] == ["launch_here", "main"]
        assert next(frame["name"] for frame in frames if frame["kind"] == "native") == "probe_launch"
        assert not any(frame["kind"] == "kernel" for frame in frames)
    assert not len(capture.columns["samples"]["tid"])
    assert not losses(capture)


def test_launch_stacks_are_an_option_of_the_command_line(agent: object, tmp_path: Path) -> None:
    program = Path(__file__).parent.parent / "targets" / "launches.py"
    command = [sys.executable, "-m", "pillion", "run", "--launch-stacks", "-r", "0", "-o", str(tmp_path / "c"), "--"]
    subprocess.run(
        [*command, sys.executable, str(program)], check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=120
    )
    assert pillion.open(tmp_path / "c").meta["launch_stacks"] is True


def _library_of(pid: int) -> str:
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        (path,) = {line.split()[5] for line in maps if "libpillion" in line}
    return os.fspath(path)
