"""``with pillion.profile()`` with a real agent: samples and waits of this process, wherever the block is."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from capture_questions import losses, range_names, stack_names

import pillion


def burn(cpu_s: float) -> int:
    until = time.thread_time() + cpu_s
    total = 0
    while time.thread_time() < until:
        total += sum(range(100))
    return total


def functions_in(profile: pillion.profile) -> set[str]:
    capture = profile.capture
    return {name for stack in capture.columns["samples"]["stack"] for name in stack_names(capture, stack, "python")}


def test_a_block_has_ranges_samples_and_waits(agent: Any) -> None:
    with pillion.profile(rate_hz=499) as profile, pillion.record_function("work"):
        burn(0.3)
        with pillion.record_function("nap"):
            time.sleep(0.1)
    capture = profile.capture
    assert sorted(range_names(capture)) == ["nap", "work"]
    assert "burn" in functions_in(profile)
    asleep = [
        end - start
        for name, start, end in zip(
            range_names(capture, "waits"), capture.columns["waits"]["start_ns"], capture.columns["waits"]["end_ns"]
        )
        if name == "nap"
    ]
    assert sum(asleep) == pytest.approx(0.1e9, rel=0.1)
    assert not losses(capture)
    table = profile.key_averages().table()
    assert "work" in table
    assert "499 Hz" in table


def test_a_block_in_a_thread_pool_sees_the_other_threads(agent: Any) -> None:
    def step(index: int) -> None:
        with pillion.record_function(f"step {index}"):
            burn(0.05)

    def profiled() -> pillion.profile:
        with pillion.profile(rate_hz=499) as profile, ThreadPoolExecutor(3) as inner:
            list(inner.map(step, range(7)))
        return profile

    with ThreadPoolExecutor(1) as pool:
        profile = pool.submit(profiled).result()
    assert sorted(range_names(profile.capture)) == sorted(f"step {index}" for index in range(7))
    assert len(set(profile.capture.columns["events"]["tid"])) > 1
    assert {"burn", "step"} <= {name.rpartition(".")[2] for name in functions_in(profile)}


def test_a_block_in_a_forked_worker_is_the_workers_own(agent: Any) -> None:
    with pillion.record_function("before the fork"):
        pass
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with pillion.profile(rate_hz=499) as profile, pillion.record_function("in the worker"):
                burn(0.2)
            answer = {
                "ranges": range_names(profile.capture),
                "pids": sorted({int(pid) for pid in profile.capture.columns["samples"]["pid"]}),
                "functions": sorted(functions_in(profile)),
            }
            os.write(writer, json.dumps(answer).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as answers:
        answer = json.loads(answers.read())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert answer["ranges"] == ["in the worker"]
    assert answer["pids"] == [pid]
    assert "burn" in answer["functions"]


def test_parent_and_child_profile_themselves_at_once(agent: Any) -> None:
    with pillion.profile(rate_hz=99) as profile, pillion.record_function("parent"):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with pillion.record_function("child"):
                    burn(0.05)
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
        os.waitpid(pid, 0)
    assert range_names(profile.capture) == ["parent"], "the child is not followed"
    assert set(profile.capture.columns["samples"]["pid"]) <= {os.getpid()}


def test_an_exception_leaves_a_whole_profile(agent: Any) -> None:
    profile = pillion.profile()
    with pytest.raises(ZeroDivisionError), profile, pillion.record_function("doomed"):
        _ = 1 // 0
    assert range_names(profile.capture) == ["doomed"]
