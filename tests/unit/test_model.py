"""Events and averages against a slow, direct reference, and against the real torch where it is installed."""

from __future__ import annotations

import copy
import pickle
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from range_tree import Range, spool_of, threads
from spool_writer import SpoolWriter

from pillion._capture import Capture
from pillion.merge import merge
from pillion.merge.spool import parse_spool
from pillion.model import EventList, FunctionEvent, FunctionEventAvg, event_list


def events_of(writer: SpoolWriter) -> EventList:
    tables, meta = merge(parse_spool(writer.to_bytes()))
    return event_list(tables, meta["start_ns"])


class Node:
    """A range in torch's tree."""

    def __init__(self, made: Range, parent: Node | None) -> None:
        self.name = "ProfilerStep*" if made.name.startswith("ProfilerStep#") else made.name
        self.tid, self.start_ns, self.end_ns = made.tid, made.start_ns, made.end_ns
        self.parent = parent
        self.children: list[Node] = []

    @property
    def total_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def self_ns(self) -> int:
        return self.total_ns - sum(child.total_ns for child in self.children)


def reference(all_threads: list[list[Range]]) -> list[Node]:
    """torch's rules: an only child of the same name merges into its parent, until there is none."""
    nodes: list[Node] = []
    for ranges in all_threads:
        mine: list[Node] = []
        for made in ranges:
            parent = None if made.parent is None else mine[made.parent]
            mine.append(Node(made, parent))
            if parent:
                parent.children.append(mine[-1])
        nodes += mine
    merged = True
    while merged:
        merged = False
        for node in nodes:
            parent = node.parent
            if parent and parent.name == node.name and len(parent.children) == 1:
                parent.children = node.children
                for child in node.children:
                    child.parent = parent
                nodes = [other for other in nodes if other is not node]
                merged = True
    return sorted(nodes, key=lambda node: (node.start_ns, -node.end_ns, node.tid))


@settings(max_examples=100, deadline=None)
@given(threads())
def test_events_are_torchs(all_threads: list[list[Range]]) -> None:
    expected = reference(all_threads)
    events = events_of(spool_of(all_threads))
    assert len(events) == len(expected)
    for event, node in zip(events, expected):
        assert (event.name, event.thread) == (node.name, node.tid)
        assert event.time_range.start == node.start_ns / 1e3
        assert event.cpu_time_total == pytest.approx(node.total_ns / 1e3)
        assert event.self_cpu_time_total == pytest.approx(node.self_ns / 1e3)
        assert (event.cpu_parent and event.cpu_parent.time_range.start) == (node.parent and node.parent.start_ns / 1e3)
        assert [child.time_range.start for child in event.cpu_children] == [
            child.start_ns / 1e3 for child in node.children
        ]


@settings(max_examples=100, deadline=None)
@given(threads())
def test_averages_are_sums_over_names(all_threads: list[list[Range]]) -> None:
    expected: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for node in reference(all_threads):
        for place, value in enumerate((1, node.total_ns, node.self_ns)):
            expected[node.name][place] += value
    averages = events_of(spool_of(all_threads)).key_averages()
    assert [average.key for average in averages] == list(expected)
    for average, (count, total_ns, self_ns) in zip(averages, expected.values()):
        assert average.count == count
        assert average.cpu_time_total == pytest.approx(total_ns / 1e3)
        assert average.self_cpu_time_total == pytest.approx(self_ns / 1e3)


@settings(max_examples=30, deadline=None)
@given(threads())
def test_averages_of_objects_are_the_averages_of_columns(all_threads: list[list[Range]]) -> None:
    events = events_of(spool_of(all_threads))
    for by_column, by_object in zip(events.key_averages(), EventList(list(events)).key_averages()):
        for attribute in ("key", "count", "cpu_time", "self_cpu_time_total", "node_id", "input_shapes", "is_async"):
            left, right = getattr(by_column, attribute), getattr(by_object, attribute)
            assert left == pytest.approx(right) if isinstance(left, float) else left == right


def test_a_range_that_ended_on_another_thread_is_outside_the_tree(spool: SpoolWriter) -> None:
    spool.record(1, 7, "step", 1_000, 9_000, seq=1)
    spool.record(1, 7, "request", 2_000, 8_000, seq=2, parent=1, depth=1, end_tid=8, flags=2)
    spool.record(1, 7, "inner", 3_000, 4_000, seq=3, parent=2, depth=2)
    step, request, inner = events_of(spool)
    assert (request.is_async, request.cpu_parent, request.cpu_children, request.self_cpu_time_total) == (
        True,
        None,
        [],
        0,
    )
    assert inner.cpu_parent is step
    assert step.self_cpu_time_total == 7.0


def test_a_range_that_outlives_its_parent_moves_up(spool: SpoolWriter) -> None:
    spool.record(1, 7, "step", 0, 20_000, seq=1)
    spool.record(1, 7, "first", 1_000, 10_000, seq=2, parent=1, depth=1)
    spool.record(1, 7, "second", 5_000, 10_001, seq=3, parent=2, depth=2)
    spool.record(1, 7, "last", 6_000, 20_001, seq=4, parent=3, depth=3)
    step, first, second, last = events_of(spool)
    assert [event.cpu_parent for event in (first, second, last)] == [step, step, None]
    assert first.self_cpu_time_total == 9.0


def test_utility_ranges_are_left_out_and_their_children_move_up(spool: SpoolWriter) -> None:
    spool.record(1, 7, "step", 1_000, 9_000, seq=1)
    spool.record(1, 7, "profiler::_record_function_enter", 2_000, 8_000, seq=2, parent=1, depth=1)
    spool.record(1, 7, "inner", 3_000, 4_000, seq=3, parent=2, depth=2)
    step, inner = events_of(spool)
    assert (step.name, inner.cpu_parent) == ("step", step)


def test_steps_are_numbered_in_their_trace_name_only(spool: SpoolWriter) -> None:
    for step in range(3):
        spool.record(1, 7, f"ProfilerStep#{step}", step * 10, step * 10 + 5, seq=step + 1)
    events = events_of(spool)
    assert [(event.name, event.trace_name) for event in events] == [
        ("ProfilerStep*", f"ProfilerStep#{step}") for step in range(3)
    ]
    (average,) = events.key_averages()
    assert average.count == 3


def test_samples_and_waits_are_on_events_and_averages(training: Capture) -> None:
    step, forward, load, _ = training.function_events
    assert (step.name, forward.name, load.name) == ("step", "forward", "load")
    assert (step.samples, step.on_cpu_ns, step.self_on_cpu_ns, step.off_cpu_ns) == (3, 300, 100, 0)
    assert (forward.samples, forward.on_cpu_ns) == (2, 200)
    assert load.off_cpu_ns == 300
    averages = {average.key: average for average in training.key_averages()}
    assert (averages["step"].on_cpu_ns, averages["step"].self_on_cpu_ns) == (300, 100)
    assert averages["load"].off_cpu_ns == 300


def test_a_merged_range_keeps_the_samples_of_what_it_absorbed(spool: SpoolWriter) -> None:
    spool.record(1, 7, "a", 10, 90, seq=1)
    spool.record(1, 7, "a", 20, 80, seq=2, parent=1, depth=1)
    spool.sample("SAMPLE", 41, 7, 30, 30, range_seq=2, weight_ns=11)
    (event,) = events_of(spool)
    assert (event.samples, event.self_on_cpu_ns, event.on_cpu_ns) == (1, 11, 11)


def test_total_average_sums_everything(training: Capture) -> None:
    total = training.total_average()
    assert (total.key, total.count) == ("Total", 4)
    assert total.self_cpu_time_total == pytest.approx(1.5)


def test_a_list_makes_no_objects_before_someone_looks(training: Capture) -> None:
    events = training.function_events
    assert list.__len__(events) == 0
    assert len(events) == 4
    events.key_averages().table()
    assert list.__len__(events) == 0
    assert events[0] is events[0]
    assert list.__len__(events) == 4


def test_a_list_behaves_as_a_list(training: Capture) -> None:
    events = training.function_events
    step = events[0]
    assert step in events
    assert events.index(step) == 0
    assert [*reversed(events)][-1] is step
    assert sorted(events, key=lambda event: event.name)[0].name == "backward"
    assert len(events + [step]) == 5  # noqa: RUF005 the operator is what is tested
    assert events == list(events)


def test_averages_follow_a_list_that_was_changed(training: Capture) -> None:
    events = training.function_events
    del events[0]
    assert [average.key for average in events.key_averages()] == ["forward", "load", "backward"]
    assert events.self_cpu_time_total == pytest.approx(1.2)


def test_an_event_can_be_changed_and_copied(training: Capture) -> None:
    event = training.function_events[1]
    event.name = "renamed"
    event.cpu_memory_usage = 5
    assert (event.key, event.self_cpu_memory_usage) == ("renamed", 5)
    assert copy.copy(event).name == "renamed"
    assert pickle.loads(pickle.dumps(event)).trace_name == "forward"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        event.nothing  # noqa: B018 reading it is the test


def test_an_average_refuses_what_does_not_belong_to_it() -> None:
    average = FunctionEventAvg().add(FunctionEvent(0, "a", 1, 0, 1))
    with pytest.raises(AssertionError, match="differs"):
        average.add(FunctionEvent(1, "b", 1, 0, 1))
    with pytest.raises(AssertionError, match="neither"):
        average.add("a")  # type: ignore[arg-type]


def test_an_empty_list_has_an_empty_table() -> None:
    assert EventList().table() == ""


def test_an_unknown_sort_key_is_an_attribute_error(training: Capture) -> None:
    with pytest.raises(AttributeError):
        training.key_averages().table(sort_by="nothing")


def test_the_table_says_what_was_measured(training: Capture) -> None:
    lines = training.key_averages().table(sort_by="cpu_time_total", row_limit=2).splitlines()
    assert lines[1].split("  ")[-2].strip() == "Off-CPU"
    assert [line.split()[0] for line in lines[3:5]] == ["step", "load"]
    assert lines[-4:] == [
        "Self CPU time total: 1.500us",
        "4 ranges measured, 3 samples at 99 Hz, 1 wait of 100us or longer",
        "lost: nothing",
        "cost: the agent used 5.00% of one CPU and 1.00 MB of memory",
    ]


def test_without_an_agent_the_table_says_so(spool: SpoolWriter, tmp_path: Any) -> None:
    from pillion._capture import read_spool_capture

    spool.object("meta", collector="self", samples_unavailable="cannot reach the agent: none; start one")
    spool.object("end", end_ns=1)
    spool.record(1, 7, "step", 10, 20, seq=1)
    (tmp_path / "spool").write_bytes(spool.to_bytes())
    table = read_spool_capture(tmp_path / "spool").key_averages().table()
    assert "ranges only: no agent (cannot reach the agent: none); samples and waits need `pillion agent start`" in table
    assert "On-CPU" not in table


# ---- the same events in torch ----

_EVENTS: list[dict[str, Any]] = [
    {"name": "step", "start_us": 0, "end_us": 2_000_000.5},
    {"name": "aten::mm", "start_us": 10, "end_us": 1010.25, "input_shapes": [[2, 3], [3, 4]], "flops": 48},
    {"name": "aten::mm", "start_us": 2000, "end_us": 2500, "input_shapes": [[9, 3], [3, 4]], "flops": 1_234_567},
    {"name": "a name that is longer than the column of names can ever be" * 2, "start_us": 3000, "end_us": 3000.125},
    {"name": "memory", "start_us": 4000, "end_us": 4001, "cpu_memory_usage": 3 << 20},
    {"name": "remote", "start_us": 4000, "end_us": 4001, "thread": 5, "is_async": True},
]
_TABLES: list[dict[str, Any]] = [
    {},
    {"sort_by": "cpu_time_total"},
    {"sort_by": "self_cpu_time_total", "row_limit": 2},
    {"row_limit": 0},
    {"row_limit": -1, "header": "a header", "top_level_events_only": True},
    {"time_unit": "ms"},
    {"max_name_column_width": 30, "max_shapes_column_width": 10},
    {"max_name_column_width": None, "max_shapes_column_width": None, "sort_by": "count"},
]


def _made(module: Any, with_stack: bool, **options: Any) -> Any:
    """The same events as the classes of a module, torch's or ours."""
    events = [
        module.FunctionEvent(
            id=number,
            **{
                "thread": 1,
                "stack": [f"model.py({number}): forward", "train.py(1): main"] if with_stack else [],
                "is_user_annotation": number % 2 == 0,
                "flops": 0,
                **fields,
            },
        )
        for number, fields in enumerate(_EVENTS)
    ]
    for child in events[1:5]:
        child.set_cpu_parent(events[0])
        events[0].append_cpu_child(child)
    made = module.EventList(events, **options)
    made._tree_built = True  # torch's list wants to have been parsed
    return made


@pytest.mark.parametrize("options", _TABLES, ids=str)
@pytest.mark.parametrize("averages", [None, {}, {"group_by_input_shapes": True}, {"group_by_stack_n": 1}], ids=str)
@pytest.mark.parametrize(
    "kind",
    [{}, {"profile_memory": True}, {"with_flops": True}, {"with_stack": True}],
    ids=str,
)
def test_tables_are_torchs(options: dict[str, Any], averages: dict[str, Any] | None, kind: dict[str, Any]) -> None:
    torch_module = pytest.importorskip("torch.autograd.profiler_util", reason="needs torch")
    import pillion.model as our_module

    kind = dict(kind)
    with_stack = kind.pop("with_stack", False)
    tables = []
    for module in (torch_module, our_module):
        made = _made(module, with_stack, **kind)
        tables.append((made if averages is None else made.key_averages(**averages)).table(**options))
    assert tables[1] == tables[0]


def test_the_events_of_a_capture_print_as_torchs(training: Capture) -> None:
    torch_module = pytest.importorskip("torch.autograd.profiler_util", reason="needs torch")
    ours = training.function_events
    theirs = torch_module.EventList(
        torch_module.FunctionEvent(
            id=event.id,
            name=event.name,
            thread=event.thread,
            start_us=event.time_range.start,
            end_us=event.time_range.end,
            stack=[],
            flops=0,
            is_user_annotation=True,
        )
        for event in ours
    )
    theirs._build_tree()
    for expected, mine in ((theirs, ours), (theirs.key_averages(), ours.key_averages())):
        mine._is_sampled, mine._notes = False, []  # torch knows neither
        assert mine.table(sort_by="cpu_time_total") == expected.table(sort_by="cpu_time_total")
        assert [event.self_cpu_time_total_str for event in mine] == [
            event.self_cpu_time_total_str for event in expected
        ]
