"""profile(): without an agent through the native library, with one through the protocol."""

from __future__ import annotations

import json
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fake_agent import FakeAgent

from pillion import PillionError, Unavailable, UsageError, profile, record_function

PRIME = 10_007


def emit(name: str, count: int) -> None:
    for _ in range(count):
        with record_function(name):
            pass


def counts(prof: profile) -> dict[str, int]:
    return {average.key: average.count for average in prof.key_averages()}


def in_a_fork(work: Callable[[], Any]) -> Any:
    """What ``work`` returns in a forked child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = work()
        except BaseException as error:
            answer = repr(error)
        os.write(write, pickle.dumps(answer))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        answer = pickle.loads(file.read())
    os.waitpid(pid, 0)
    return answer


def test_every_range_is_there() -> None:
    with profile(agent="never") as prof, record_function("outer"):
        emit("inner", PRIME)
    assert counts(prof) == {"outer": 1, "inner": PRIME}
    assert prof.total_average().count == PRIME + 1
    assert len(prof.function_events) == PRIME + 1
    assert prof.self_cpu_time_total > 0


def test_ranges_of_all_threads_are_there() -> None:
    with profile(agent="never") as prof, ThreadPoolExecutor(7) as pool:
        list(pool.map(emit, [f"thread {i}" for i in range(7)], [1_009] * 7))
    assert counts(prof) == {f"thread {i}": 1_009 for i in range(7)}


def test_what_is_recorded_before_and_after_is_not_in_it() -> None:
    emit("before", 3)
    with profile(agent="never") as first:
        emit("first", 5)
    emit("between", 3)
    with profile(agent="never") as second:
        emit("second", 7)
    emit("after", 3)
    assert (counts(first), counts(second)) == ({"first": 5}, {"second": 7})


def test_in_a_thread_of_a_pool() -> None:
    def work() -> dict[str, int]:
        with profile(agent="never") as prof:
            emit("in a pool", 101)
        return counts(prof)

    with ThreadPoolExecutor(1) as pool:
        assert [pool.submit(work).result() for _ in range(3)] == [{"in a pool": 101}] * 3


def test_in_a_forked_worker_while_the_parent_records_itself() -> None:
    def work() -> dict[str, int]:
        with profile(agent="never") as prof:
            emit("child", 103)
        return counts(prof)

    with profile(agent="never") as prof:
        emit("parent", 11)
        assert in_a_fork(work) == {"child": 103}
        emit("parent", 2)
    assert counts(prof) == {"parent": 13}


def test_a_fork_that_leaves_the_block_leaves_the_parents_recording_alone() -> None:
    prof = profile(agent="never")
    with prof:
        emit("parent", 5)

        def leave() -> list[Any]:
            prof.__exit__(None, None, None)
            return list(prof.function_events)

        assert in_a_fork(leave) == []
        emit("parent", 6)
    assert counts(prof) == {"parent": 11}


def test_a_second_profile_at_the_same_time_is_a_runtime_error_from_every_thread() -> None:
    with profile(agent="never") as prof:
        with pytest.raises(RuntimeError, match="another profile"), profile(agent="never"):
            pass
        with ThreadPoolExecutor(1) as pool:
            assert isinstance(pool.submit(profile(agent="never").__enter__).exception(), RuntimeError)
        emit("goes on", 3)
    assert counts(prof) == {"goes on": 3}


def test_entering_while_it_runs_is_a_runtime_error() -> None:
    prof = profile(agent="never")
    with prof, pytest.raises(RuntimeError, match="entered before"):
        prof.__enter__()


@pytest.mark.parametrize("acc_events", [False, True])
def test_a_profile_that_was_stopped_can_be_started_again(acc_events: bool) -> None:
    """As servers do that profile on demand."""
    prof = profile(agent="never", acc_events=acc_events)
    prof.stop()  # nothing runs, so nothing ends
    for name in ("first", "second", "third"):
        prof.start()
        emit(name, 3)
        prof.stop()
        emit("between", 5)
    assert counts(prof) == ({"first": 3, "second": 3, "third": 3} if acc_events else {"third": 3})
    with pytest.raises(RuntimeError, match="step"):
        prof.step()


def test_exceptions_pass_and_what_was_recorded_stays() -> None:
    prof = profile(agent="never")

    def fail() -> None:
        with prof:
            emit("before it", 3)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert counts(prof) == {"before it": 3}


def test_disabled_does_nothing_and_answers_with_nothing(tmp_path: Path) -> None:
    with profile(agent="never") as outer, profile(enabled=False) as prof:
        emit("x", 3)
    assert counts(outer) == {"x": 3}
    assert list(prof.function_events) == list(prof.key_averages()) == []
    assert prof.self_cpu_time_total == 0
    assert prof.total_average().count == 0
    prof.export_chrome_trace(tmp_path / "trace.json")


def test_while_it_runs_there_are_no_events_and_no_results_yet() -> None:
    with profile(agent="never") as prof:
        emit("x", 3)
        assert list(prof.function_events) == []
        assert str(prof) == "<unfinished pillion.profile>"
        with pytest.raises(RuntimeError, match="has not finished"):
            prof.key_averages()


def test_a_range_that_is_still_open_is_there_as_unfinished() -> None:
    with record_function("before"), profile(agent="never"):
        pass
    outer = record_function("open")
    with profile(agent="never") as prof:
        outer.__enter__()
    outer.__exit__(None, None, None)
    assert counts(prof) == {"open": 1}


def test_without_an_agent_the_table_says_so(socket_directory: Path) -> None:
    with profile() as prof:
        emit("x", 3)
    for table in (prof.table(), prof.key_averages().table(), str(prof)):
        assert "ranges only" in table.splitlines()[-2]
    assert "no agent runs" in prof.capture.meta["samples_unavailable"]


def test_the_trace_can_be_exported_as_often_as_wanted(tmp_path: Path) -> None:
    with profile(agent="never") as prof:
        emit("x", 3)
    for name in ("a.json", "b.json"):
        prof.export_chrome_trace(tmp_path / name)
        events = json.loads((tmp_path / name).read_text())["traceEvents"]
        assert sum(event.get("name") == "x" for event in events) == 3


def test_results_can_be_read_in_many_threads() -> None:
    with profile(agent="never") as prof:
        emit("x", PRIME)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: counts(prof)["x"], range(4))) == [PRIME] * 4


def test_an_agent_can_be_required(socket_directory: Path) -> None:
    with pytest.raises(Unavailable, match="no agent runs"), profile(agent="require"):
        pass
    with profile(agent="never"):  # the failed one is not in the way
        pass


def test_with_an_agent_samples_and_waits_are_there(fake_agent: FakeAgent) -> None:
    with profile(rate_hz=997, wait_threshold_us=250) as prof:
        pass
    request = fake_agent.requests.get()
    assert (request["self"], request["pids"], request["follow"]) == (True, [], False)
    assert (request["rate_hz"], request["wait_threshold_ns"]) == (997, 250_000)
    assert (prof.capture.samples.num_rows, prof.capture.waits.num_rows) == (3, 1)
    assert counts(prof)["forward"] == 1


def test_an_agent_that_refuses_leaves_ranges_only(fake_agent: FakeAgent) -> None:
    fake_agent.script.refusal = {"ok": False, "error": "cannot load", "cause": "no BTF", "fix": "", "code": 3}
    with profile() as prof:
        emit("x", 3)
    assert counts(prof) == {"x": 3}
    assert prof.capture.meta["samples_unavailable"] == "cannot load: no BTF"


def test_an_agent_that_dies_is_a_warning_and_leaves_what_was_recorded(fake_agent: FakeAgent) -> None:
    fake_agent.script.then = "die"
    with pytest.warns(RuntimeWarning, match="the agent ended in the middle"), profile() as prof:
        pass
    assert counts(prof)["forward"] == 1
    fake_agent.script.spool = b""
    with pytest.warns(RuntimeWarning, match="the agent ended in the middle"), profile() as prof:
        pass
    assert counts(prof) == {}


def test_a_process_that_is_recorded_already_is_unavailable() -> None:
    from pillion._native import ffi, lib

    fd = os.memfd_create("spool")
    assert lib.pln_self_start(fd) == 0
    try:
        with pytest.raises(Unavailable, match="recorded already"), profile(agent="never"):
            pass
    finally:
        lib.pln_self_stop(ffi.new("struct pln_sink *"), ffi.new("struct pln_loss[]", 8), 8)
        os.close(fd)


@pytest.mark.parametrize("arguments", [{"agent": "maybe"}, {"rate_hz": -1}, {"wait_threshold_us": -1}])
def test_a_wrong_argument_is_a_usage_error(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        profile(**arguments)


def test_no_place_for_the_temporary_file_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    with pytest.raises(PillionError, match="set TMPDIR"), profile(agent="never"):
        pass


def test_no_thread_is_left_behind() -> None:
    before = len(os.listdir("/proc/self/task")), threading.active_count(), len(os.listdir("/proc/self/fd"))
    with profile(agent="never") as prof:
        emit("x", 1)
    counts(prof)
    after = len(os.listdir("/proc/self/task")), threading.active_count(), len(os.listdir("/proc/self/fd"))
    assert after == before
