"""torch's operators in a job that knows nothing of Pillion, next to what torch's own profiler says of it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from capture_questions import losses, range_names

import pillion
from pillion_probes import CONSTANTS

TARGETS = Path(__file__).parent.parent / "targets"


def run(directory: Path, *options: str, target: str = "torch_ops") -> pillion.Capture:
    command = [
        sys.executable,
        "-m",
        "pillion",
        "run",
        "-o",
        str(directory),
        *options,
        "--",
        sys.executable,
        str(TARGETS / f"{target}.py"),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
    return pillion.open(directory)


def test_the_operators_are_those_of_torchs_profiler(
    agent: Any, require_torch: None, target: Callable[..., Any], tmp_path: Path
) -> None:
    truth = Counter(target("torch_ops", "--truth").answer()["names"])
    found = Counter(range_names(run(tmp_path / "capture")))
    # What torch does outside the profiled block, at its import say, is in ours as well.
    during = {name: count for name, count in found.items() if name in truth}
    setup = Counter(range_names(run(tmp_path / "again")))
    assert found == setup, "the same program has the same operators"
    missing = {name: count - during.get(name, 0) for name, count in truth.items() if during.get(name, 0) < count}
    assert not missing
    assert during["a step"] == 11
    for name in (
        "aten::convolution_backward",
        "ConvolutionBackward0",
        "aten::native_batch_norm",
        "Optimizer.step#SGD.step",
    ):
        assert during[name] == truth[name] > 0


def test_operators_are_nested_as_they_ran(agent: Any, require_torch: None, tmp_path: Path) -> None:
    capture = run(tmp_path / "capture")
    names, parents = range_names(capture), capture.columns["events"]["parent"]
    backward_convolutions = [row for row, name in enumerate(names) if name == "aten::convolution_backward"]
    above = {names[parents[row]] for row in backward_convolutions}
    assert above == {"ConvolutionBackward0"}
    sequences = capture.columns["events"]["value"].astype("i8")
    forward = {int(n) for n, name in zip(sequences, names) if name == "aten::convolution"}
    backward = {int(n) for n, name in zip(sequences, names) if name == "ConvolutionBackward0"}
    assert backward
    assert -1 not in backward
    assert backward <= forward, "a backward node has the sequence number of its forward operator"
    assert not losses(capture)


def test_operators_have_the_shapes_that_torchs_profiler_gives_them(
    agent: Any, require_torch: None, target: Callable[..., Any], tmp_path: Path
) -> None:
    truth = Counter(target("torch_ops", "--truth").answer()["shapes"])
    events = run(tmp_path / "capture", "--shapes").function_events
    found = Counter(f"{event.name} {event.input_shapes}" for event in events)
    missing = {shape: count - found[shape] for shape, count in truth.items() if found[shape] < count}
    assert not missing
    assert truth["aten::linear [[7, 108], [5, 108], [5]]"] == 11


def test_shapes_are_recorded_when_asked_for(agent: Any, require_torch: None, tmp_path: Path) -> None:
    assert {str(event.input_shapes) for event in run(tmp_path / "capture").function_events} == {"[]"}


def test_operators_of_workers_are_recorded(agent: Any, require_torch: None, tmp_path: Path) -> None:
    capture = run(tmp_path / "capture", target="torch_workers")
    pids = capture.columns["events"]["pid"].tolist()
    logarithms = Counter(pid for pid, name in zip(pids, range_names(capture)) if name == "aten::log")
    assert logarithms.total() == 101
    assert len(logarithms) == 2
    assert not losses(capture)


def test_operators_can_be_left_out(agent: Any, require_torch: None, tmp_path: Path) -> None:
    sources = set(run(tmp_path / "capture", "--no-ops").columns["events"]["source"])
    assert CONSTANTS["PLN_SOURCE_TORCH"] not in sources
    assert sources <= {CONSTANTS["PLN_SOURCE_ITT"]}, "oneDNN annotates its primitives"


@pytest.mark.parametrize("options", [[], ["--starved"]])
def test_operators_come_again_in_a_later_recording_of_the_same_process(
    agent: Any, require_torch: None, target: Callable[..., Any], options: list[str]
) -> None:
    assert target("torch_sessions", *options).answer() == {"counts": [11, 7]}


def test_a_python_that_ignores_our_start_up_is_said_to_tell_nothing(
    agent: Any, require_torch: None, tmp_path: Path
) -> None:
    def notices(*flags: str) -> list[tuple[str, bool]]:
        directory = tmp_path / f"c{len(flags)}"
        command = [sys.executable, "-m", "pillion", "run", "-o", str(directory), "--", sys.executable, *flags]
        subprocess.run([*command, "-c", "import torch; torch.ones(7).cos()"], check=True, timeout=120)
        capture = pillion.open(directory)
        said = capture.meta.get("notices", [])
        return [(notice["source"], "aten::cos" in range_names(capture)) for notice in said]

    assert notices("-E", "-s") == [("torch", False)]
    assert notices() == []
