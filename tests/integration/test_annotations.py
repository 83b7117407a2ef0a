"""NVTX and ITT annotations of a job that knows nothing of Pillion."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from capture_questions import losses, range_names

import pillion

TARGET = Path(__file__).parent.parent / "targets" / "annotated.py"


@pytest.fixture
def capture(agent: Any, tmp_path: Path) -> pillion.Capture:
    for package in ("nvtx", "ittapi"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs the package {package}")
    command = [sys.executable, "-m", "pillion", "run", "-o", str(tmp_path / "c"), "--", sys.executable, str(TARGET)]
    subprocess.run(command, check=True, capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
    return pillion.open(tmp_path / "c")


def test_every_annotation_arrives_with_its_domain(capture: pillion.Capture, target: Callable[..., Any]) -> None:
    truth = target("annotated").answer()["names"]
    texts = capture.columns["strings"]["text"]
    domains = [texts[row] for row in capture.columns["events"]["args"]]
    found = Counter(zip(range_names(capture), domains))
    assert found == {(name, domain): count for name, (domain, count) in truth.items()}
    assert not losses(capture)


def test_annotations_are_nested_and_carry_their_payload(capture: pillion.Capture) -> None:
    events, names = capture.columns["events"], range_names(capture)
    inner = [row for row, name in enumerate(names) if name == "inner"]
    assert {names[events["parent"][row]] for row in inner} == {"outer"}
    payloads = Counter(int(events["value"][row]) for row in inner)
    assert payloads == Counter(range(101)) + Counter(range(7))
    assert len({int(events["tid"][row]) for row in inner}) == 2
