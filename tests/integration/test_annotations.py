"""NVTX and ITT annotations of a job that knows nothing of Pillion."""

from __future__ import annotations

import importlib.util
import json
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


def test_annotations_have_their_category_and_payload(capture: pillion.Capture, target: Callable[..., Any]) -> None:
    truth = target("annotated").answer()["attributes"]
    texts, names = capture.columns["strings"]["text"], range_names(capture)
    found: dict[str, set[str]] = {}
    for name, row in zip(names, capture.columns["events"]["attributes"]):
        if row:
            found.setdefault(name, set()).add(texts[row])
    assert {name: [json.loads(text) for text in said] for name, said in found.items()} == truth


def test_a_thread_has_the_name_that_the_job_gave_it(capture: pillion.Capture) -> None:
    threads = capture.columns["threads"]
    (other,) = {int(tid) for tid in capture.columns["events"]["tid"]} - {int(capture.columns["processes"]["pid"][0])}
    assert threads["name"][threads["tid"] == other].tolist() == ["named by itt"]


@pytest.mark.parametrize(("emitter", "package", "domain"), [("nvtx", "nvtx", ""), ("itt", "ittapi", "pillion")])
def test_emitted_ranges_reach_the_tool_that_is_attached(
    agent: Any, tmp_path: Path, emitter: str, package: str, domain: str
) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs the package {package}")
    code = f"""
from pillion import profiler
with profiler.emit_{emitter}():
    for _ in range(101):
        with profiler.record_function("step"):
            pass
with profiler.record_function("unseen"):
    pass
"""
    command = [sys.executable, "-m", "pillion", "run", "-o", str(tmp_path / "c"), "--", sys.executable, "-c", code]
    subprocess.run(command, check=True, capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
    capture = pillion.open(tmp_path / "c")
    events, texts = capture.columns["events"], capture.columns["strings"]["text"]
    found = Counter(zip(range_names(capture), events["source"].tolist(), (texts[row] for row in events["args"])))
    source = CONSTANTS[f"PLN_SOURCE_{emitter.upper()}"]
    own = CONSTANTS["PLN_SOURCE_RECORD_FUNCTION"]
    assert found == {("step", own, ""): 101, ("step", source, domain): 101, ("unseen", own, ""): 1}
