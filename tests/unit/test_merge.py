"""From a spool to tables: exact answers on a small spool, and on random trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from range_tree import Range, spool_of, threads
from spool_writer import SpoolWriter

from pillion._capture import Capture
from pillion._tables import Tables
from pillion.merge import merge
from pillion.merge.spool import parse_spool
from pillion_probes.layout import CONSTANTS


def tables_of(writer: SpoolWriter) -> Tables:
    return merge(parse_spool(writer.to_bytes()))[0]


def names(tables: Tables, table: str, column: str) -> list[str]:
    return [str(text) for text in tables["strings"]["text"][tables[table][column]]]


def rows(capture: Capture, table: str) -> list[dict[str, Any]]:
    return list(capture.tables[table].to_pylist())


def test_ranges_are_sorted_and_know_their_parents(training: Capture) -> None:
    events = training.columns["events"]
    assert names(training.columns, "events", "name") == ["step", "forward", "backward", "load"]
    assert events["parent"].tolist() == [-1, 0, 0, -1]
    assert events["start_ns"].tolist() == [1_000, 1_100, 1_500, 1_200]
    assert names(training.columns, "events", "args") == ["", "layer 1", "", ""]


def test_samples_belong_to_their_innermost_range(training: Capture) -> None:
    samples = training.columns["samples"]
    assert samples["event"].tolist() == [1, 1, 0]
    assert names(training.columns, "samples", "range_name") == ["forward", "forward", "step"]


def test_a_wait_says_who_ended_it(training: Capture) -> None:
    (wait,) = rows(training, "waits")
    assert (wait["start_ns"], wait["end_ns"], wait["runnable_ns"]) == (1_300, 1_600, 20)
    assert (wait["event"], wait["state"], wait["waker_pid"], wait["waker_tid"]) == (3, 1, 41, 41)


def test_stacks_stop_where_the_interpreter_begins(training: Capture) -> None:
    frames = [frame["name"] for frame in rows(training, "frames")]
    stacks = [[frames[frame] for frame in stack["frames"]] for stack in rows(training, "stacks")]
    assert stacks == [
        [],
        ["gemm", "matmul", "main"],
        ["__schedule", "futex_wait_queue", "pthread_cond_wait", "get", "main"],
    ]


def test_a_python_function_has_what_its_interpreter_did_for_it(spool: SpoolWriter) -> None:
    frames = [
        ("native", "gemm", "libblas.so"),
        ("native", "PyLong_Add", "libpython3.11.so.1.0"),
        ("native", "main", "x"),
        ("python", "f", ""),
    ]
    for frame, (kind, name, module) in enumerate(frames, start=1):
        spool.object("frame", id=frame, kind=kind, name=name, module=module)
    spool.object("stack", id=1, frames=[1, 2, 3, 4])
    spool.object("stack", id=2, frames=[2, 3, 4])
    stacks = tables_of(spool)["stacks"]["frames"]
    assert stacks[1].tolist() == [0, 3]
    assert stacks[2].tolist() == [3]


def test_a_stack_without_python_keeps_its_native_frames(spool: SpoolWriter) -> None:
    for frame, name in enumerate(["worker", "_PyEval_EvalFrameDefault", "main"], start=1):
        spool.object("frame", id=frame, kind="native", name=name, module="python3.11")
    spool.object("stack", id=1, frames=[1, 2, 3])
    assert tables_of(spool)["stacks"]["frames"][1].tolist() == [0, 1, 2]


def test_threads_and_processes_are_listed(training: Capture) -> None:
    assert [(row["tid"], row["name"], row["on_cpu_ns"]) for row in rows(training, "threads")] == [
        (41, "train", 700),
        (43, "loader-0", 0),
    ]
    (process,) = rows(training, "processes")
    assert (process["cmdline"], process["end_ns"]) == ("python 'a b.py'", -1)


def test_strings_of_regions_become_one_table(spool: SpoolWriter) -> None:
    spool.region(2, 42)
    spool.string(2, "an earlier name, so that the ids differ")
    spool.record(1, 7, "forward", 10, 20, seq=1)
    spool.record(2, 7, "forward", 10, 20, seq=1)
    tables = tables_of(spool)
    assert names(tables, "events", "name") == ["forward", "forward"]
    assert tables["strings"]["text"].tolist().count("forward") == 1


def test_an_unknown_string_id_is_no_name(spool: SpoolWriter) -> None:
    spool.record(1, 7, "forward", 10, 20, seq=1)
    spool._records[1][0]["name"] = 2**32 - 1
    assert names(tables_of(spool), "events", "name") == [""]


def test_a_sample_belongs_to_the_region_its_process_had_then(spool: SpoolWriter) -> None:
    spool.region(2, 41, 1_000)  # the process called exec
    spool.record(1, 41, "before", 100, 900, seq=1)
    spool.record(2, 41, "after", 1_100, 1_900, seq=1)
    for ts_ns, region in ((500, 1), (1_500, 2)):
        name = spool.string(region, ("before", "after")[region - 1])
        spool.sample("SAMPLE", 41, 41, ts_ns, ts_ns, range_seq=1, range_name=name)
    spool.sample("SAMPLE", 77, 41, 500, 500, range_seq=1, range_name=1)  # a process without a region
    tables = tables_of(spool)
    assert [tables["samples"]["event"][row] for row in (0, 1, 2)] in ([0, -1, 1], [-1, 0, 1])
    assert sorted(names(tables, "samples", "range_name")) == ["", "after", "before"]


def test_a_sample_of_a_range_that_was_lost_keeps_its_name(spool: SpoolWriter) -> None:
    spool.sample("SAMPLE", 41, 41, 10, 10, range_seq=5, range_name=spool.string(1, "lost"))
    tables = tables_of(spool)
    assert tables["samples"]["event"].tolist() == [-1]
    assert names(tables, "samples", "range_name") == ["lost"]


def test_the_args_of_an_operator_are_the_shapes_of_its_inputs(spool: SpoolWriter) -> None:
    torch = CONSTANTS["PLN_SOURCE_TORCH"]
    for start_ns, args in enumerate(["[[2, 3], []]", "no JSON", '{"a": 1}', ""]):
        spool.record(1, 7, "aten::mm", 10 * start_ns, 10 * start_ns + 5, args=args, source=torch)
    spool.record(1, 7, "a range", 90, 95, args="[1]", source=torch, scope=7)
    tables, meta = merge(parse_spool(spool.to_bytes()))
    assert names(tables, "events", "shapes") == ["[[2, 3], []]", "", "", "", ""]
    assert names(tables, "events", "args") == ["", "no JSON", '{"a": 1}', "", "[1]"]
    shapes = [event.input_shapes for event in Capture(tables, meta).function_events]
    assert shapes == [[[2, 3], []], [], [], [], []]


def test_a_mark_is_a_range_without_length(spool: SpoolWriter) -> None:
    spool.record(1, 7, "epoch", 10, 10, kind=CONSTANTS["PLN_MARK"], value=3)
    events = tables_of(spool)["events"]
    assert (events["kind"].tolist(), events["value"].tolist()) == ([CONSTANTS["PLN_MARK"]], [3])


def test_ranges_that_name_each_other_as_parents_do_not_make_a_circle(spool: SpoolWriter) -> None:
    spool.record(1, 7, "a", 10, 20, seq=1, parent=2, depth=1)
    spool.record(1, 7, "b", 10, 20, seq=2, parent=1, depth=1)
    spool.record(1, 7, "c", 10, 20, seq=3, parent=3, depth=2)
    assert tables_of(spool)["events"]["parent"].tolist() == [-1, -1, -1]


def test_a_sample_outside_all_ranges_is_not_given_to_a_mark(spool: SpoolWriter) -> None:
    spool.record(1, 7, "epoch", 10, 10, kind=CONSTANTS["PLN_MARK"])  # a mark has no seq
    spool.sample("SAMPLE", 41, 7, 20, 20)
    assert tables_of(spool)["samples"]["event"].tolist() == [-1]


def test_a_sample_that_carries_no_range_belongs_to_the_one_that_was_open(spool: SpoolWriter) -> None:
    """The collector learnt too late where the thread publishes its range."""
    spool.record(1, 7, "outer", 10, 100, seq=1)
    spool.record(1, 7, "inner", 20, 30, seq=2, parent=1, depth=1)
    spool.record(1, 8, "other thread", 0, 1_000, seq=1)
    spool.record(1, 9, "earlier", 0, 5, seq=1)
    moments = {25: "inner", 30: "outer", 40: "outer", 100: "", 5: ""}
    for ts_ns in moments:
        spool.sample("SAMPLE", 41, 7, ts_ns, ts_ns)
    spool.sample("SAMPLE", 41, 9, 200, 200)
    spool.sample("SAMPLE", 77, 7, 201, 201)  # another process
    spool.sample("WAIT", 41, 7, 22, 28)
    tables = tables_of(spool)
    found = dict(zip(tables["samples"]["ts_ns"].tolist(), names(tables, "samples", "range_name")))
    assert found == moments | {200: "", 201: ""}
    assert names(tables, "waits", "range_name") == ["inner"]
    assert [tables["events"]["start_ns"][row] for row in tables["waits"]["event"]] == [20]


def test_records_of_unknown_kind_are_skipped(spool: SpoolWriter) -> None:
    spool.record(1, 7, "later", 10, 20, kind=200)
    assert len(tables_of(spool)["events"]["id"]) == 0


def test_a_spool_without_end_is_reported(spool: SpoolWriter) -> None:
    losses = tables_of(spool)["losses"]
    assert dict(zip(losses["kind"], losses["count"])) == {"unfinished": 1}


@settings(max_examples=100, deadline=None)
@given(threads())
def test_parents_of_random_trees(all_threads: list[list[Range]]) -> None:
    tables = tables_of(spool_of(all_threads))
    events = tables["events"]
    found = {}
    for row, key in enumerate(zip(events["tid"].tolist(), events["start_ns"].tolist())):
        parent = events["parent"][row]
        found[key] = None if parent < 0 else (int(events["tid"][parent]), int(events["start_ns"][parent]))
    expected = {
        (made.tid, made.start_ns): None if made.parent is None else (made.tid, ranges[made.parent].start_ns)
        for ranges in all_threads
        for made in ranges
    }
    assert found == expected
    order = list(zip(events["pid"], events["tid"], events["start_ns"], -events["end_ns"]))
    assert order == sorted(order)
    assert np.array_equal(events["id"], np.arange(len(order)))


def test_native_names_are_demangled(spool: SpoolWriter) -> None:
    mangled = {
        "_ZN2at6native3addEv": "at::native::add()",
        "_ZN2at6native3addEv._omp_fn.0": "at::native::add() [_omp_fn.0]",
        "_Zbroken": "_Zbroken",
        "main": "main",
    }
    for frame, name in enumerate(mangled, start=1):
        spool.object("frame", id=frame, kind="native", name=name)
    spool.object("frame", id=9, kind="python", name="_ZN2at6native3addEv")
    assert tables_of(spool)["frames"]["name"].tolist() == [*mangled.values(), "_ZN2at6native3addEv"]


def test_names_that_choke_the_demangler_stay_as_they_are(spool: SpoolWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pillion._demangle.BUDGET_S", 0.0)
    spool.object("frame", id=1, kind="native", name="_ZN2at6native3addEv")
    assert tables_of(spool)["frames"]["name"].tolist() == ["_ZN2at6native3addEv"]


def test_torchs_own_records_are_operators(spool: SpoolWriter) -> None:
    torch = {"source": CONSTANTS["PLN_SOURCE_TORCH"]}
    spool.record(1, 7, "step", 0, 100, seq=1)
    spool.record(1, 7, "aten::mm", 10, 20, seq=2, parent=1, depth=1, value=5, **torch)
    spool.record(1, 7, "MmBackward0", 30, 40, seq=3, parent=1, depth=1, value=5, scope=1, **torch)
    spool.record(1, 7, "theirs", 50, 60, seq=4, parent=1, depth=1, value=2**64 - 1, scope=7, **torch)
    events = tables_of(spool)["events"]
    assert [events["category"][row] for row in range(4)] == ["user_annotation", "cpu_op", "cpu_op", "user_annotation"]
    assert events["scope"].tolist() == [7, 0, 1, 7]
    assert events["sequence_nr"].tolist() == [-1, 5, 5, -1]


def test_ranges_alone_need_no_columns_of_operators(spool: SpoolWriter) -> None:
    spool.record(1, 7, "step", 0, 100, seq=1)
    assert "category" not in tables_of(spool)["events"]
