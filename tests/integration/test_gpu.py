"""A job's use of its GPU, recorded by ``pillion run``: the job knows nothing of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from capture_questions import losses, range_names

import pillion
from pillion_probes import CONSTANTS


def record(gpu: Any, directory: Path, options: tuple[str, ...], *words: str) -> tuple[pillion.Capture, dict[str, Any]]:
    """The capture of a run of gpu_job, and what the job says of itself."""
    job = gpu.compile(gpu.sources / "gpu_job.c")
    command = [sys.executable, "-m", "pillion", "run", "-o", str(directory), *options, "--", str(job), *words]
    done = subprocess.run(
        ["env", *(f"{name}={value}" for name, value in gpu.environment().items()), *command],
        check=True,
        stdout=subprocess.PIPE,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    return pillion.open(directory), json.loads(done.stdout.splitlines()[-1])


def test_what_a_job_did_with_its_gpu_arrives_from_its_first_call_on(
    agent: Any, fake_gpu: Callable[..., Any], tmp_path: Path
) -> None:
    words = ("launches=1009", "driver=101", "copies=103", "syncs=11", "graphs=5", "streams=4", "threads=3")
    capture, truth = record(fake_gpu(), tmp_path / "c", (), *words)
    assert not losses(capture)
    events, activities = capture.columns["events"], capture.columns["activities"]

    names = np.array(range_names(capture))
    is_outer = (events["source"] == CONSTANTS["PLN_SOURCE_CUDA"]) & (events["depth"] == 0)
    calls = Counter(names[is_outer].tolist())
    expected = {name: count for name, count in truth["calls"].items() if count}
    assert {name: calls[name] for name in expected} == expected

    is_kernel = activities["kind"].isin("kernel")
    duration_ns = (activities["end_ns"] - activities["start_ns"])[is_kernel]
    launched_by = Counter(names[activities["launch"][is_kernel]].tolist())
    assert (activities["launch"][is_kernel] >= 0).all()
    assert launched_by == {"cudaLaunchKernel": 1009, "cuLaunchKernel": 101, "cudaGraphLaunch": 5 * 5}
    assert int(duration_ns.sum()) == sum(kernel["ns"] for kernel in truth["kernels"].values())


def test_every_launch_has_the_stack_of_its_place_when_asked_for(
    agent: Any, fake_gpu: Callable[..., Any], tmp_path: Path
) -> None:
    capture, _ = record(fake_gpu(), tmp_path / "c", ("--launch-stacks",), "launches=101", "driver=11", "graphs=5")
    events, names = capture.columns["events"], np.array(range_names(capture))
    launches = np.isin(names, ["cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch"]) & (events["depth"] == 0)
    assert np.count_nonzero(launches) == 101 + 11 + 5
    assert (events["stack"][launches] > 0).all()
    inner = np.isin(names, ["cuLaunchKernel", "cuGraphLaunch"]) & (events["depth"] == 1)
    assert not (events["stack"][inner] > 0).any(), "once for each launch"


def test_without_cuda_the_job_runs_and_nothing_of_its_gpu_is_recorded(
    agent: Any, fake_gpu: Callable[..., Any], tmp_path: Path
) -> None:
    capture, truth = record(fake_gpu(), tmp_path / "c", ("--no-cuda",), "launches=101")
    assert truth["calls"]["cudaLaunchKernel"] == 101
    assert len(capture.columns["activities"]["kind"]) == 0
    assert not (capture.columns["events"]["source"] == CONSTANTS["PLN_SOURCE_CUDA"]).any()
    assert not losses(capture)


PROFILED = """
import sys
import pillion
sys.path[:0] = sys.argv[1:]
with pillion.profile(agent="require") as profile:
    from cuda_driver import KERNEL, Driver
    Driver().launch(1009)
kinds = profile.capture.columns["activities"]["kind"]
print([int(kinds.isin("kernel").sum()), profile.capture.meta.get("notices", [])])
"""


def test_cuda_that_comes_within_a_profile_is_recorded_from_its_first_call_on(
    agent: Any, fake_gpu: Callable[..., Any]
) -> None:
    targets = Path(__file__).parent.parent / "targets"
    said = subprocess.run(
        [sys.executable, "-c", PROFILED, str(targets)],
        env=os.environ | fake_gpu().environment(),
        check=True,
        stdout=subprocess.PIPE,
        timeout=120,
    )
    kernels, notices = json.loads(said.stdout.decode().replace("'", '"'))
    assert kernels == 1009
    assert [notice["kind"] for notice in notices if notice["kind"] != "clock"] == []


def test_cuda_of_a_job_that_was_started_without_us_is_said_not_to_be_recorded(
    recording: Callable[..., Any], target: Callable[..., Any], fake_gpu: Callable[..., Any]
) -> None:
    gpu = fake_gpu()
    job = gpu.compile(gpu.sources / "gpu_job.c")
    victims = [target(job, "launches=11", wait=True, env=gpu.environment(**more)) for more in ({}, PASSED_BY)]
    session = recording(*(victim.pid for victim in victims))
    victims[0].go()
    assert victims[0].answer()["calls"]["cudaLaunchKernel"] == 11
    capture = session.finish()
    (notice,) = capture.meta["notices"]
    assert notice["pid"] == victims[0].pid
    assert notice["text"].startswith("nothing of CUDA is recorded")


def test_a_job_that_ends_before_it_hands_over_what_its_gpu_did_is_a_loss(
    recording: Callable[..., Any], target: Callable[..., Any], fake_gpu: Callable[..., Any]
) -> None:
    gpu = fake_gpu()
    job = gpu.compile(gpu.sources / "gpu_job.c")
    library = str(Path(str(sys.modules["pillion._native"].__file__)).with_name("libpillion.so"))
    found = []
    for end in ("answer", "kill"):
        victim = target(job, "launches=11", wait=True, env=gpu.environment(CUDA_INJECTION64_PATH=library))
        session = recording(victim.pid)
        victim.go()
        session.wait_for(lambda progress: progress.ranges >= 2 * 11)
        getattr(victim, end)()
        session.wait_for_end()
        found.append(losses(session.finish()))
    assert found == [{}, {"held_back": 1}]


PASSED_BY = {"PILLION_NO_CUDA": "1"}
