"""The real torch beside us: one program under both profilers, one result through both post-processors."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs torch")
theirs = pytest.importorskip("torch.autograd.profiler", reason="needs torch")

import pillion  # noqa: E402
from pillion import profiler as ours  # noqa: E402
from pillion._tables import SCHEMAS, from_rows  # noqa: E402
from pillion._torch_join import join  # noqa: E402
from pillion._torch_trace import read_trace  # noqa: E402
from pillion.model import EventList, event_list  # noqa: E402

_OFFSET_NS = 12_345
_ATTRIBUTES = (
    *("id", "name", "trace_name", "overload_name", "thread", "fwd_thread", "input_shapes", "stack", "scope"),
    *("use_device", "cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage", "self_device_memory_usage"),
    *("is_async", "is_remote", "sequence_nr", "node_id", "device_type", "device_index", "device_resource_id", "flops"),
    *("is_legacy", "is_user_annotation", "is_python_function", "count", "key", "cpu_time_total", "kernels"),
    *("concrete_inputs", "kwinputs", "linked_correlation_id", "structured_input_shapes", "input_dtypes", "python_id"),
)
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


def through_us(result: Any, prof: Any, use_device: str | None = None) -> EventList:
    """torch's result through our post-processor."""
    tables = {table: from_rows(table, ()) for table in SCHEMAS}
    tables["strings"], tables["stacks"] = from_rows("strings", [(0, "")]), from_rows("stacks", [(0, ())])
    trace = read_trace(
        result,
        use_device=use_device,
        record_shapes=prof.record_shapes,
        with_stack=prof.with_stack,
        with_flops=prof.with_flops,
    )
    joined = join(tables, trace, result, pid=os.getpid(), offset_ns=_OFFSET_NS, use_device=use_device)
    return event_list(
        joined.tables,
        trace.origin_ns - _OFFSET_NS,
        detail=joined.detail,
        profile_memory=prof.profile_memory,
        with_flops=prof.with_flops,
    )


def assert_same_events(mine: EventList, expected: Any, attributes: tuple[str, ...] = _ATTRIBUTES) -> None:
    assert len(mine) == len(expected)
    for event, other in zip(mine, expected):
        for name in attributes:
            assert getattr(event, name) == getattr(other, name), (name, event, other)
        assert (event.time_range.start, event.time_range.end) == (other.time_range.start, other.time_range.end)
        assert (event.cpu_parent and event.cpu_parent.id) == (other.cpu_parent and other.cpu_parent.id)
        assert [child.id for child in event.cpu_children] == [child.id for child in other.cpu_children]


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


# ---- devices that this machine need not have ----


@dataclass
class KinetoEvent:
    """What the getters of torch's events say."""

    values: dict[str, Any] = field(default_factory=dict)


_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("linked_correlation_id", "scope", "flops", "nbytes", "cuda_elapsed_us", "device_index"), 0),
    **dict.fromkeys(("metadata_json", "flow_id", "flow_type", "flow_start", "extra_meta")),
    **{name: [] for name in ("shapes", "stack", "concrete_inputs", "structured_input_shapes", "dtypes")},
    **dict.fromkeys(("is_async", "is_hidden_event", "is_user_annotation", "is_python_function"), False),
    **dict.fromkeys(("sequence_nr", "python_id", "python_parent_id", "python_module_id"), -1),
    "structured_input_strides": [],
    "kwinputs": {},
    "external_id": 0,
    "fwd_thread_id": 0,
    "overload_name": "",
}
for _getter in (
    *_DEFAULTS,
    *("name", "start_ns", "end_ns", "start_thread_id", "end_thread_id", "device_resource_id", "correlation_id"),
    *("device_type", "activity_type"),
):
    setattr(KinetoEvent, _getter, lambda self, name=_getter: self.values.get(name, _DEFAULTS.get(name)))


class Result:
    def __init__(self, events: list[KinetoEvent]) -> None:
        self._events = events

    def events(self) -> list[KinetoEvent]:
        return self._events

    def trace_start_ns(self) -> int:
        return 1_000_000


@st.composite
def results(draw: st.DrawFn) -> Result:
    """Operators on two threads, calls into the runtime, kernels, annotations of the device, memory records."""
    types = torch.autograd.DeviceType
    made: list[dict[str, Any]] = []
    for number in range(1, draw(st.integers(1, 12)) + 1):
        thread, start = draw(st.integers(1, 2)), 1_000_000 + draw(st.integers(0, 400))
        end = start + draw(st.integers(0, 300))
        name = draw(st.sampled_from(["a", "b", "aten::is_leaf", "ProfilerStep#1"]))
        place = {"start_thread_id": thread, "end_thread_id": thread, "device_resource_id": 100 + thread}
        op = {"name": name, "start_ns": start, "end_ns": end, "correlation_id": number, **place}
        made.append(op | {"device_type": types.CPU, "activity_type": "cpu_op"})
        for kind in draw(st.lists(st.sampled_from(["call", "kernel", "annotation", "memory"]), max_size=3)):
            begin = start + draw(st.integers(0, 200))
            event = {"name": kind, "start_ns": begin, "end_ns": begin + draw(st.integers(0, 100)), **place}
            linked = {"linked_correlation_id": number, "correlation_id": 1_000 + len(made)}
            if kind == "call":
                other = {"start_thread_id": 77, "end_thread_id": 77, "device_resource_id": 77}
                made.append(event | linked | other | {"device_type": types.CPU, "activity_type": "cuda_runtime"})
            elif kind == "kernel":
                made.append(event | linked | {"device_type": types.CUDA, "activity_type": "kernel"})
            elif kind == "annotation":
                what = {"is_user_annotation": True, "correlation_id": number, "activity_type": "gpu_user_annotation"}
                made.append(event | what | {"device_type": types.CUDA})
            else:
                where = draw(st.sampled_from([types.CPU, types.CUDA]))
                size = {"name": "[memory]", "end_ns": begin, "nbytes": draw(st.integers(-99, 99))}
                made.append(event | size | {"correlation_id": 0, "device_type": where, "activity_type": "cpu_instant"})
    return Result([KinetoEvent(values) for values in made])


def _upstream(result: Result) -> Any:
    prof = theirs.profile(profile_memory=True)
    prof.use_device = "cuda"
    events = theirs.EventList(prof._parse_kineto_results(result), use_device="cuda", profile_memory=True)
    events._build_tree()
    return prof, events


@settings(max_examples=200, deadline=None)
@given(results())
def test_devices_of_one_result_through_both(result: Result) -> None:
    prof, expected = _upstream(result)
    mine = through_us(result, prof, use_device="cuda")
    key = lambda event: (event.time_range.start, -event.time_range.end, event.id)  # noqa: E731 equal times: any order
    attributes = ("name", "thread", "device_type", "cpu_memory_usage", "device_memory_usage", "is_user_annotation")
    for event, other in zip(sorted(mine, key=key), sorted(expected, key=key)):
        for name in attributes:
            assert getattr(event, name) == getattr(other, name), name
    assert len(mine) == len(expected)
    assert sum(len(event.kernels) for event in mine) >= sum(len(event.kernels) for event in expected)
