"""pillion.profiler: arguments, warnings and errors of torch's module, without torch."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import pillion
from pillion import Unavailable, profiler

DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences-to-torch.md"


def test_it_has_torchs_names() -> None:
    names = {
        *("profile", "record_function", "emit_itt", "emit_nvtx", "load_nvprof", "EnforceUnique", "parse_nvprof_trace"),
        *("KinetoStepTracker", "EventList", "FunctionEvent", "MemRecordsAcc", "_run_on_profiler_start"),
        *("_run_on_profiler_stop", "_is_profiler_enabled"),
    }
    assert {name for name in names if not hasattr(profiler, name)} == set()
    assert pillion.profiler is profiler


def test_importing_it_loads_no_torch() -> None:
    code = "import sys; from pillion import profiler; assert not {'torch', 'bcc', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("line", re.findall(r"```sh\npython -c \"(.*?)\"\n```", DIFFERENCES.read_text(), re.DOTALL))
def test_what_the_differences_say_runs(line: str) -> None:
    subprocess.run([sys.executable, "-c", line], check=True)


def test_it_says_whether_a_profile_runs() -> None:
    assert not profiler._is_profiler_enabled
    with profiler.profile():
        assert profiler._is_profiler_enabled
    assert not profiler._is_profiler_enabled


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"use_cpu": False}, AssertionError),
        ({"use_cpu": False, "use_kineto": True}, AssertionError),
        ({"post_processing_timeout_s": -1}, ValueError),
    ],
)
def test_wrong_arguments_are_torchs_errors(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        profiler.profile(**arguments)


def test_devices_that_are_not_there_are_warnings() -> None:
    with pytest.warns(UserWarning, match="not a valid device option"):
        assert profiler.profile(use_device="abacus").use_device is None
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert profiler.profile(use_device="cuda").use_device is None
    with pytest.warns(FutureWarning, match="use_cuda"), pytest.warns(UserWarning, match="CUDA is not available"):
        assert profiler.profile(use_cuda=True).use_device is None


def test_flops_need_shapes() -> None:
    assert profiler.profile(with_flops=True).record_shapes


def test_a_used_profile_cannot_be_entered_again() -> None:
    with profiler.profile() as prof:
        assert repr(prof) == str(prof) == "<unfinished pillion.profiler.profile>"
        assert list(prof.function_events) == []
        with pytest.raises(RuntimeError, match="has not finished"):
            prof.key_averages()
    with pytest.raises(RuntimeError, match="not reentrant"):
        prof.__enter__()


def test_cycles_of_one_profile_add_up() -> None:
    prof = profiler.profile(acc_events=True)
    for name in ("first", "second"):
        prof._prepare_trace()
        prof._start_trace()
        with profiler.record_function(name):
            pass
        prof.__exit__(None, None, None)
    assert [event.name for event in prof.function_events] == ["second", "first"]


def test_trace_ids_are_32_digits_or_the_callbacks() -> None:
    prof = profiler.profile()
    assert re.fullmatch("[0-9A-F]{32}", prof.default_trace_id())
    made: list[str] = []
    with profiler.profile(custom_trace_id_callback=lambda: made.append("x") or "mine") as prof:
        pass
    assert (prof.trace_id, made) == ("mine", ["x"])


def test_stacks_need_with_stack(tmp_path: Path) -> None:
    with profiler.profile() as prof:
        pass
    with pytest.raises(AssertionError, match="with_stack"):
        prof.export_stacks(tmp_path / "stacks")
    with profiler.profile(with_stack=True) as prof:
        pass
    with pytest.raises(ValueError, match="metric should be one of"):
        prof.export_stacks(tmp_path / "stacks", "self_time")


def test_a_range_ends_with_its_future() -> None:
    future: Future[int] = Future()
    with profiler.profile() as prof:
        with profiler.record_function("request") as request:
            assert request._call_end_callbacks_on_future(future) is future
            with pytest.raises(RuntimeError, match="only be called once"):
                request._call_end_callbacks_on_future(future)
        with profiler.record_function("meanwhile"):
            pass
        future.set_result(3)
    request, meanwhile = prof.function_events
    assert meanwhile.cpu_parent is request
    with pytest.raises(AssertionError):
        profiler.record_function("x")._call_end_callbacks_on_future(future)


EMITTERS = pytest.mark.parametrize("emitter", [profiler.emit_itt, profiler.emit_nvtx])


class Tool:
    """Stands for the packages nvtx and ittapi: the ranges that a tool would see, as "<name" and ">"."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self.push_range, self.pop_range = self.begin, self.end
        for name in ("torch", "torch.autograd"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        for name in ("nvtx", "ittapi", "ittapi.native"):
            monkeypatch.setitem(sys.modules, name, self)
        self.Domain = self.StringHandle = str

    def begin(self, text: str) -> None:
        self.seen.append(f"<{text}")

    def end(self) -> None:
        self.seen.append(">")

    def task_begin(self, domain: str, name: str) -> None:
        assert domain == "pillion"
        self.begin(name)

    def task_end(self, domain: str) -> None:
        self.end()


@EMITTERS
def test_emitters_need_torch_or_a_package(emitter: type[profiler.emit_itt], monkeypatch: pytest.MonkeyPatch) -> None:
    Tool(monkeypatch)
    for name in ("nvtx", "ittapi"):
        monkeypatch.setitem(sys.modules, name, None)
    with emitter(enabled=False) as nothing:
        assert nothing is None
    with pytest.raises(Unavailable, match="neither torch nor the package") as refused, emitter():
        pass
    assert "pip install" in refused.value.fix
    with profiler.profile(), pytest.raises(RuntimeError, match="runs already"), emitter():
        pass


@EMITTERS
def test_emitters_show_a_tool_the_ranges_of_record_function(
    emitter: type[profiler.emit_itt], monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = Tool(monkeypatch)
    before, across = profiler.record_function("before"), profiler.record_function("across")
    before.__enter__()
    with emitter(record_shapes=True) as emitting:
        assert profiler._is_profiler_enabled
        with profiler.record_function("outer"), profiler.record_function("inner", "with args"):
            pass
        profiler.record_function("decorator")(lambda: None)()
        thread = threading.Thread(target=profiler.record_function("thread")(lambda: None))
        thread.start()
        thread.join()
        before.__exit__(None, None, None)
        with pytest.raises(KeyError), profiler.record_function("fails"):
            raise KeyError
        across.__enter__()
        with pytest.raises(RuntimeError, match="runs already"):
            emitter().__enter__()
    across.__exit__(None, None, None)
    assert tool.seen == ["<outer", "<inner", ">", ">", "<decorator", ">", "<thread", ">", "<fails", ">", "<across", ">"]
    assert not profiler._is_profiler_enabled
    with profiler.record_function("afterwards"):
        pass
    assert len(tool.seen) == 12
    assert "__enter__" not in vars(profiler.record_function)
    with pytest.raises(RuntimeError, match="not reentrant"):
        emitting.__enter__()


@EMITTERS
def test_a_range_that_is_misused_is_not_emitted(
    emitter: type[profiler.emit_itt], monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = Tool(monkeypatch)
    with emitter():
        with profiler.record_function("once") as once, pytest.raises(RuntimeError, match="entered twice"):
            once.__enter__()
        with pytest.raises(AssertionError, match="without __enter__"):
            once.__exit__(None, None, None)
    assert tool.seen == ["<once", ">"]


def test_keys_are_seen_once() -> None:
    unique = profiler.EnforceUnique()
    unique.see(1, "a")
    unique.see(1, "b")
    with pytest.raises(RuntimeError, match="duplicate key"):
        unique.see(1, "a")


def test_steps_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = profiler.KinetoStepTracker
    monkeypatch.setattr(tracker, "_step_dict", {})
    monkeypatch.setattr(tracker, "_current_step", 0)
    monkeypatch.setattr("pillion._step_tracker._torchs", lambda: None)  # another test may have imported torch
    assert [tracker.increment_step("profile"), tracker.increment_step("optimizer")] == [1, 2]
    assert (tracker.increment_step("profile"), tracker.current_step()) == (2, 2)
    assert tracker.erase_step_count("profile")
    assert not tracker.erase_step_count("profile")
    tracker._step_dict["optimizer"] = 7
    with pytest.warns(UserWarning, match="increased more than 1"):
        assert tracker.increment_step("optimizer") == 8


def test_a_schedule_chooses_steps(tmp_path: Path) -> None:
    ready: list[list[str]] = []
    cycle = pillion.schedule(wait=1, warmup=1, active=2, repeat=2)
    handler = pillion.tensorboard_trace_handler(str(tmp_path / "traces"), "worker", use_gzip=True)

    def on_ready(prof: pillion.profile) -> None:
        ready.append([event.trace_name for event in prof.events()])
        handler(prof)

    with pillion.profile(agent="never", schedule=cycle, on_trace_ready=on_ready) as prof:
        prof.add_metadata("note", 'a "quoted" text')
        for _ in range(11):
            prof.step()
    assert ready == [["ProfilerStep#2", "ProfilerStep#3"], ["ProfilerStep#6", "ProfilerStep#7"]]
    assert len(list((tmp_path / "traces").glob("worker.*.pt.trace.json.gz"))) == 2
    assert [average.count for average in prof.key_averages()] == [2]


@pytest.mark.parametrize("numbers", [{"wait": -1}, {"active": 0}, {"repeat": -1}, {"skip_first": -1}])
def test_a_wrong_schedule_is_an_assertion_error(numbers: dict[str, int]) -> None:
    with pytest.raises(AssertionError):
        pillion.schedule(**({"wait": 1, "warmup": 1, "active": 1} | numbers))


def test_without_warm_up_a_schedule_warns() -> None:
    with pytest.warns(UserWarning, match="warmup"):
        pillion.schedule(wait=0, warmup=0, active=1)


def test_a_profile_that_was_dropped_while_it_ran_does_not_block_the_next() -> None:
    profiler.profile().__enter__()
    prof = profiler.profile()
    with pytest.warns(ResourceWarning, match="dropped while it ran"):
        prof.__enter__()
    with profiler.record_function("next"):
        pass
    prof.__exit__(None, None, None)
    assert [event.name for event in prof.function_events] == ["next"]
    assert not profiler._is_profiler_enabled


def test_a_disabled_profile_leaves_one_that_runs_alone() -> None:
    with profiler.profile() as prof:
        with pillion.profile(enabled=False):
            pass
        assert profiler._is_profiler_enabled
        with profiler.record_function("range"):
            pass
    assert [event.name for event in prof.function_events] == ["range"]
    with pillion.profile(enabled=False):
        pass
    assert not profiler._is_profiler_enabled
