"""The real torch beside us: one program under both profilers, one result through both post-processors."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
theirs = pytest.importorskip("torch.autograd.profiler", reason="needs torch")

from both_post_processors import assert_same_events, through_us  # noqa: E402

import pillion  # noqa: E402
from pillion import profiler as ours  # noqa: E402

_DETAILED = torch._C._profiler._ExperimentalConfig(verbose=True)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETO_LOG_LEVEL", "6")


def program(module: Any = theirs, steps: int = 3) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    for _ in range(steps):
        with module.record_function("train"), module.record_function("train"), module.record_function("inner"):
            model(torch.randn(5, 8)).sum().backward()
    torch.empty(100)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"record_shapes": True},
        {"profile_memory": True},
        {"with_flops": True},
        {"with_stack": True, "experimental_config": _DETAILED},
        {"profile_memory": True, "with_flops": True, "with_stack": True, "experimental_config": _DETAILED},
    ],
    ids=lambda options: "+".join(options) or "plain",
)
def test_one_result_through_both(options: dict[str, Any], tmp_path: Path) -> None:
    with theirs.profile(**options) as prof:
        program()
    mine, expected = through_us(prof.kineto_results, prof), prof.function_events
    assert_same_events(mine, expected)
    total = mine.total_average()
    for name in ("key", "count", "flops", "cpu_memory_usage", "scope", "stack"):
        assert getattr(total, name) == getattr(prof.total_average(), name)
    for number, events in enumerate((mine, expected)):
        events.export_chrome_trace(str(tmp_path / f"{number}.json"))
    assert json.loads((tmp_path / "0.json").read_text()) == json.loads((tmp_path / "1.json").read_text())
    if prof.with_stack:
        return  # torch's self times are negative there, and with flops it swaps two columns
    for table in ({}, {"sort_by": "cpu_time_total", "row_limit": 7}, {"top_level_events_only": True}):
        assert mine.table(**table) == expected.table(**table)
    for group in ((), (True,), (False, 5), (True, 3, True)):
        for sort_by in (None, "self_cpu_time_total", "cpu_memory_usage"):
            texts = [events.key_averages(*group).table(sort_by=sort_by) for events in (mine, expected)]
            assert texts[0] == texts[1]


@pytest.mark.parametrize("options", [{}, {"record_shapes": True}, {"profile_memory": True}, {"with_flops": True}])
def test_one_program_under_both(options: dict[str, Any]) -> None:
    def seen(prof: Any) -> list[Any]:
        return [
            (
                *(event.name, event.thread, event.scope, event.is_user_annotation, event.input_shapes, event.flops),
                *(event.cpu_memory_usage, event.cpu_parent and event.cpu_parent.name),
            )
            for event in prof.function_events
        ]

    program()
    with theirs.profile(**options) as expected:
        program()
    with ours.profile(**options) as with_our_ranges:
        program(ours)
    with ours.profile(**options) as with_their_ranges:
        program(theirs)
    assert seen(with_our_ranges) == seen(expected)
    assert seen(with_their_ranges) == seen(expected)


@pytest.mark.parametrize("agent_use", ["never", "require"])
def test_without_torchs_engine_its_operators_are_there_too(agent: Any, agent_use: Any) -> None:
    with theirs.profile() as prof:
        program()
    expected = Counter(event.name for event in prof.function_events)
    for _ in range(2):
        with pillion.profile(agent=agent_use) as p:
            program(pillion)
        assert p.kineto_results is None
        found = Counter(event.name for event in p.events())
        assert {name: found[name] for name in expected} == expected
    with pillion.profile(activities=[torch.profiler.ProfilerActivity.CPU], agent=agent_use) as p:
        program(pillion)
    assert Counter(event.name for event in p.events())["aten::linear"] == expected["aten::linear"], "once, not twice"


def test_ranges_of_both_worlds_are_in_one_tree_once() -> None:
    with ours.profile() as prof, theirs.record_function("theirs"), ours.record_function("ours"):
        torch.ones(3)
    by_name = {event.name: event for event in prof.function_events}
    assert [event.name for event in prof.function_events].count("ours") == 1
    assert by_name["ours"].cpu_parent is by_name["theirs"]
    assert by_name["aten::ones"].cpu_parent is by_name["ours"]


def test_threads_that_ran_before_are_covered() -> None:
    go = threading.Event()
    thread = threading.Thread(target=lambda: (go.wait(), torch.ones(3).relu()))
    thread.start()
    with ours.profile() as prof:
        go.set()
        thread.join()
    assert [event.name for event in prof.function_events if event.name == "aten::relu"] == ["aten::relu"]


def test_stacks_are_there_without_a_flag(tmp_path: Path) -> None:
    with ours.profile(with_stack=True) as prof:
        torch.ones(3).relu()
    (relu,) = (event for event in prof.function_events if event.name == "aten::relu")
    assert any("test_torch_parity.py" in entry for entry in relu.stack)
    prof.export_stacks(tmp_path / "stacks")
    assert (tmp_path / "stacks").read_text()


def test_torchs_futures_end_ranges() -> None:
    future: Any = torch.futures.Future()
    with ours.profile() as prof:
        with ours.record_function("request") as request:
            chained = request._call_end_callbacks_on_future(future)
        torch.ones(3)
        future.set_result(3)
        assert chained.wait() == 3
    assert prof.function_events[0].name == "request"
    assert prof.function_events[1].cpu_parent is prof.function_events[0]


def test_a_schedule_with_torchs_activities() -> None:
    seen: list[int] = []
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2)
    with pillion.profile(
        agent="never",
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=schedule,
        on_trace_ready=lambda prof: seen.append(sum(event.name == "aten::ones" for event in prof.events())),
    ) as prof:
        for _ in range(8):
            torch.ones(3)
            prof.step()
    assert seen == [2, 2]


def test_emit_itt_is_torchs() -> None:
    with ours.emit_itt() as emitter:
        torch.ones(3)
        assert theirs._is_profiler_enabled
        with pytest.raises(RuntimeError, match="runs already"):
            ours.emit_itt().__enter__()
    with pytest.raises(RuntimeError, match="not reentrant"):
        emitter.__enter__()


def test_a_device_that_is_not_there_is_a_warning() -> None:
    kinds = torch.profiler.ProfilerActivity
    if torch.cuda.is_available():
        pytest.skip("this machine has the device that must be missing")
    prof = pillion.profile(agent="never", activities=[kinds.CPU, kinds.CUDA])
    with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"):
        prof.start()
    torch.ones(3)
    prof.stop()
    assert [event.name for event in prof.events()] == ["aten::ones", "aten::empty", "aten::fill_"]
    nothing = pillion.profile(agent="never", activities=[kinds.CUDA])
    with (
        pytest.warns(UserWarning, match="not available"),
        pytest.raises(AssertionError, match="No activities specified"),
    ):
        nothing.start()


@pytest.mark.parametrize("options", [{}, {"profile_memory": True}])
def test_the_cpu_can_be_switched_off_and_on(options: dict[str, Any]) -> None:
    seen = []
    for module in (theirs, ours):
        with module.profile(use_kineto=True, **options) as prof:
            with module.record_function("outer"):
                prof.toggle_collection_dynamic(False, [torch.profiler.ProfilerActivity.CPU])
                with module.record_function("off"):
                    torch.zeros(3)
                prof.toggle_collection_dynamic(True, [torch.profiler.ProfilerActivity.CPU])
                with module.record_function("on"):
                    torch.ones(3)
            prof.toggle_collection_dynamic(False, [torch.profiler.ProfilerActivity.CPU])
            torch.arange(3)
        seen.append([(event.name, event.cpu_parent and event.cpu_parent.name) for event in prof.function_events])
    assert seen[1] == seen[0]
    assert {"on", "off"} & {name for name, _ in seen[1]} == {"on"}


def test_our_ranges_have_the_fields_of_torchs() -> None:
    fields = ("concrete_inputs", "kwinputs", "flow_id", "flow_type", "flow_start", "linked_correlation_id")
    fields += ("structured_input_shapes", "structured_input_strides", "input_dtypes", "python_id", "python_module_id")
    seen = []
    for module in (theirs, ours):
        with module.profile(record_shapes=True) as prof, module.record_function("range"):
            torch.ones(3)
        (event,) = (event for event in prof.function_events if event.name == "range")
        assert event.external_id == event.id > 0
        seen.append({name: getattr(event, name) for name in fields})
    assert seen[1] == seen[0]


def test_a_list_that_was_pickled_or_copied_has_its_tree() -> None:
    with ours.profile(record_shapes=True, profile_memory=True) as prof:
        program(ours)
    events = prof.function_events
    for again in (pickle.loads(pickle.dumps(events)), copy.deepcopy(events), copy.copy(events)):
        assert again.table() == events.table()
        assert again.key_averages(True).table() == events.key_averages(True).table()
        assert [event.cpu_parent and event.cpu_parent.id for event in again] == [
            event.cpu_parent and event.cpu_parent.id for event in events
        ]
        assert all(child.cpu_parent is event for event in again for child in event.cpu_children)
    averages = prof.key_averages()
    assert pickle.loads(pickle.dumps(averages)).table() == averages.table()


def test_an_interpreter_that_ends_inside_a_profile_ends_well() -> None:
    program = "import torch; from pillion import profiler; p = profiler.profile(); p.__enter__(); torch.ones(3)"
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode == 0


def test_memory_of_the_host_is_no_work_of_a_gpu(tmp_path: Path) -> None:
    with pillion.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, agent="never") as prof:
        torch.ones(100)
    note = next(line for line in prof.table().splitlines() if " measured" in line)
    assert "memory records" in note
    assert "GPU" not in note
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["name"] for event in events].count("[memory]") > 0
    assert {event["pid"] for event in events} == {os.getpid()}


@pytest.mark.parametrize("module", [theirs, ours], ids=lambda module: module.__name__)
def test_flows_to_backward_passes_have_kinetos_numbers(module: Any, tmp_path: Path) -> None:
    with module.profile(use_kineto=True) as prof:
        torch.ones(3, requires_grad=True).sin().cos().sum().backward()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {(each["tid"], each["ts"]): each["name"] for each in events if each["ph"] == "X"}
    begins = {each["id"]: names[each["tid"], each["ts"]] for each in events if each["ph"] == "s"}
    assert begins == {1: "aten::sum", 2: "aten::cos", 3: "aten::sin"}
