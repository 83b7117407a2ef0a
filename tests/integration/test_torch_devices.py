"""Results with devices, through torch's post-processor and ours: every field, averages, tables, JSON."""

from __future__ import annotations

import json
import os
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs torch")

from both_post_processors import (  # noqa: E402
    ALL_ATTRIBUTES,
    AVERAGED,
    assert_same_events,
    exact_kernels,
    is_same,
    private_device,
    through_torch,
    through_us,
)
from kineto_results import KinetoEvent, Result, results  # noqa: E402

TYPES = torch.autograd.DeviceType
WANTS = {"profile_memory": True, "record_shapes": True, "with_stack": True, "with_flops": True}
DEVICES = [("cuda", TYPES.CUDA), ("xpu", TYPES.XPU), ("mtia", TYPES.MTIA), (private_device(), TYPES.PrivateUse1)]


def both(result: Result, use_device: str | None, **wants: bool) -> tuple[Any, Any]:
    prof, expected = through_torch(result, use_device, **(WANTS | wants))
    return through_us(result, prof, use_device), expected


@pytest.mark.parametrize(("use_device", "device"), DEVICES, ids=[name for name, _ in DEVICES])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_field_of_every_event(use_device: str, device: Any, data: st.DataObject) -> None:
    mine, expected = both(data.draw(results(device, are_distinct=True)), use_device)
    assert_same_events(mine, expected, ALL_ATTRIBUTES)


@settings(max_examples=40, deadline=None)
@given(results(are_distinct=True))
def test_without_a_device_there_are_no_device_times(result: Result) -> None:
    mine, expected = both(result, None)
    assert_same_events(mine, expected, ALL_ATTRIBUTES)


@settings(max_examples=40, deadline=None)
@given(results(are_distinct=True))
def test_averages_and_totals(result: Result) -> None:
    mine, expected = both(result, "cuda")
    for group in product((False, True), (0, 1, 5), (False, True)):
        for average, other in zip(mine.key_averages(*group), expected.key_averages(*group), strict=True):
            assert [name for name in AVERAGED if not is_same(name, average, other)] == []
    total, other = mine.total_average(), expected.total_average()
    if len(expected):
        assert [name for name in AVERAGED if not is_same(name, total, other)] == []


TABLES: list[dict[str, Any]] = [
    {},
    {"sort_by": "self_cuda_time_total", "row_limit": 5},
    {"sort_by": "cpu_memory_usage", "header": "a header", "row_limit": -1},
    {"sort_by": "device_time_total", "max_name_column_width": 20, "time_unit": "ms"},
    {"top_level_events_only": True, "max_src_column_width": 12, "max_shapes_column_width": 9},
    {"max_name_column_width": None, "max_src_column_width": None, "max_shapes_column_width": None, "time_unit": "us"},
]


@settings(max_examples=25, deadline=None)
@given(results(are_distinct=True, unit_ns=125), st.booleans())
def test_the_text_of_every_table(result: Result, with_flops: bool) -> None:
    # Rows are sorted by floats, in which the last bit of a sum depends on what is added first: times are exact ones.
    # torch swaps the cells of stacks and flops where it shows both
    mine, expected = both(result, "cuda", with_flops=with_flops, with_stack=not with_flops)
    if with_flops:
        for event in expected:
            event.stack, event.flops = [], event.flops or 0  # torch fails at the None of its own memory records
    for table in TABLES:
        for group in (None, (), (True,), (False, 2), (True, 3, True)):
            events, others = ((each if group is None else each.key_averages(*group)) for each in (mine, expected))
            try:
                text = others.table(**table)
            except AssertionError:  # torch cannot say what share of nothing something is
                continue
            assert events.table(**table) == text, (table, group)


def test_tables_leave_their_shares_on_the_events() -> None:
    mine, expected = both(_launch(), "cuda")
    assert (mine[0].self_cpu_percent, mine[0].total_cpu_percent, mine[0].total_device_percent) == (-1, -1, -1)
    mine.table()
    expected.table()
    for event, other in zip(mine, expected, strict=True):
        for name in ("self_cpu_percent", "total_cpu_percent", "total_device_percent"):
            assert getattr(event, name) == getattr(other, name)


@settings(max_examples=25, deadline=None)
@given(result=results(are_distinct=True))
def test_json_and_stacks(tmp_path_factory: pytest.TempPathFactory, result: Result) -> None:
    folder = tmp_path_factory.getbasetemp()
    texts = []
    for place, events in enumerate(both(result, "cuda")):
        events.export_chrome_trace(str(folder / f"{place}.json"))
        made = [json.loads((folder / f"{place}.json").read_text())] if len(events) else []
        for metric in events.supported_export_stacks_metrics():
            events.export_stacks(str(folder / f"{place}.txt"), metric)
            made.append((folder / f"{place}.txt").read_text())
        texts.append(made)
    assert texts[0] == texts[1]


@settings(max_examples=80, deadline=None)
@given(results())
def test_events_of_the_same_time_nest_alike(result: Result) -> None:
    """The lists' order is not one then, so they are compared in another."""
    mine, expected = both(result, "cuda")

    def described(events: Any) -> list[tuple[Any, ...]]:
        return sorted(
            (
                *(event.time_range.start, -event.time_range.end, event.id, event.name, event.thread),
                *(event.cpu_memory_usage, event.device_memory_usage, int(event.device_type), event.is_async),
                *(event.cpu_parent.id if event.cpu_parent else -1, sorted(child.id for child in event.cpu_children)),
                *(exact_kernels(event), round(event.self_cpu_time_total, 6), round(event.device_time_total, 6)),
            )
            for event in events
        )

    assert described(mine) == described(expected)


def _launch() -> Result:
    """An operator of 30 us that launches a kernel of 50 us through a call of another thread's number."""
    op = {"start_thread_id": 1, "end_thread_id": 1, "device_resource_id": 101, "correlation_id": 1}
    call = {"start_thread_id": 9, "end_thread_id": 9, "device_resource_id": 101, "linked_correlation_id": 1}
    events = [
        {**op, "name": "aten::mm", "start_ns": 1_010_000, "end_ns": 1_040_000, "activity_type": "cpu_op"},
        {**call, "name": "cudaLaunchKernel", "start_ns": 1_020_000, "end_ns": 1_025_000, "correlation_id": 5},
        {**call, "name": "gemm", "start_ns": 1_030_000, "end_ns": 1_080_000, "correlation_id": 5},
    ]
    kinds = [(TYPES.CPU, "cpu_op"), (TYPES.CPU, "cuda_runtime"), (TYPES.CUDA, "kernel")]
    return Result(
        [
            KinetoEvent({**event, "device_type": device, "device_index": os.getpid(), "activity_type": kind})
            for event, (device, kind) in zip(events, kinds)
        ]
    )


def test_a_launch_belongs_to_its_operator() -> None:
    mine, expected = both(_launch(), "cuda")
    assert_same_events(mine, expected, ALL_ATTRIBUTES)
    operator, call, kernel = mine
    assert (call.thread, call.cpu_parent) == (1, operator)
    assert [(each.name, each.duration) for each in operator.kernels] == [("gemm", 50.0)]
    assert (operator.device_time_total, kernel.self_device_time_total) == (50.0, 50.0)


def test_a_negative_link_is_torchs_error() -> None:
    bad = Result([KinetoEvent({**_launch().events()[0].values, "linked_correlation_id": -1})])
    for processor in (lambda: through_torch(bad, "cuda"), lambda: through_us(bad, through_torch(_launch(), None)[0])):
        with pytest.raises(RuntimeError, match="negative correlation id"):
            processor()
