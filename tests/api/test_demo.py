"""``pillion demo`` and its plain job."""

from __future__ import annotations

import pytest
from fake_agent import FakeAgent
from pillion_command import Run

from pillion import demo_job, profile
from pillion.commands import demo


def test_the_plain_job_has_the_ranges_that_it_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_job, "BATCHES", 3)
    monkeypatch.setattr(demo_job, "READ_S", 0)
    with profile(agent="never") as prof:
        demo_job.main()
    counts = {average.key: average.count for average in prof.key_averages()}
    assert counts == {"read": 3, "next batch": 4, "batch": 3, "tokenize": 3, "score": 3}


def test_without_torch_the_plain_job_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert demo._job() == ["-m", "pillion.demo_job"]


def test_a_demo_ends_with_where_the_capture_is(
    cli: Run, fake_agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = cli("demo", "-o", "out", "-d", "10ms")
    assert result.returncode == 0
    assert "pillion report out" in result.stderr
