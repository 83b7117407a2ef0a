"""Each analysis on captures whose answers can be counted by hand."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from range_tree import Range, spool_of, threads
from spool_writer import SpoolWriter, gpu_spool

from pillion import analysis
from pillion._capture import Capture
from pillion._tables import Columns, Tables
from pillion.merge import merge
from pillion.merge.spool import parse_spool


def tables_of(writer: SpoolWriter) -> Tables:
    return merge(parse_spool(writer.to_bytes()))[0]


def by_name(columns: Columns) -> dict[str, dict[str, Any]]:
    rows = [dict(zip(columns, values)) for values in zip(*(column.tolist() for column in columns.values()))]
    return {row["name"]: row for row in rows}


def test_by_range(training: Capture) -> None:
    rows = by_name(analysis.ranges(training.columns))
    step = rows["step"]
    assert (step["calls"], step["cpu_total_ns"], step["self_cpu_ns"]) == (1, 1_000, 300)
    assert (step["samples"], step["on_cpu_ns"], step["self_on_cpu_ns"], step["off_cpu_ns"]) == (3, 300, 100, 0)
    load = rows["load"]
    assert (load["off_cpu_ns"], load["self_off_cpu_ns"], load["runnable_ns"], load["samples"]) == (300, 300, 20, 0)


def test_a_wait_counts_as_far_as_it_overlaps_its_range(spool: SpoolWriter) -> None:
    spool.record(1, 7, "outer", 100, 900, seq=1)
    spool.record(1, 7, "inner", 100, 500, seq=2, parent=1, depth=1)
    spool.sample("WAIT", 41, 7, 400, 700, range_seq=2, weight_ns=250)
    rows = by_name(analysis.ranges(tables_of(spool)))
    assert (rows["inner"]["off_cpu_ns"], rows["inner"]["runnable_ns"]) == (100, 100)
    assert (rows["outer"]["off_cpu_ns"], rows["outer"]["self_off_cpu_ns"]) == (100, 0)


def test_of_tasks_that_take_turns_each_has_what_happened_while_it_was_open(spool: SpoolWriter) -> None:
    """As in asyncio: a range is innermost when another begins, and ends before that does."""
    spool.record(1, 7, "first", 100, 500, seq=1)
    spool.record(1, 7, "second", 200, 900, seq=2, parent=1, depth=1)
    spool.record(1, 7, "third", 600, 1_000, seq=3, parent=2, depth=2)
    spool.sample("WAIT", 41, 7, 300, 700, range_seq=2, weight_ns=150)
    spool.sample("WAIT", 41, 7, 800, 1_100, range_seq=3)
    for ts_ns, seq in ((250, 2), (650, 3), (950, 3)):
        spool.sample("SAMPLE", 41, 7, ts_ns, ts_ns, range_seq=seq, weight_ns=13)
    rows = by_name(analysis.ranges(tables_of(spool)))
    keys = ("self_off_cpu_ns", "off_cpu_ns", "runnable_ns", "samples", "on_cpu_ns")
    assert [rows["first"][key] for key in keys] == [0, 200, 150, 1, 13]
    assert [rows["second"][key] for key in keys] == [400, 400 + 100, 150, 2, 26]
    assert [rows["third"][key] for key in keys] == [200, 200, 0, 2, 26]


def test_samples_of_a_lost_range_count_for_its_name(spool: SpoolWriter) -> None:
    spool.record(1, 7, "kept", 100, 900, seq=1)
    spool.sample("SAMPLE", 41, 7, 950, 950, range_seq=2, range_name=spool.string(1, "lost"), weight_ns=13)
    spool.sample("WAIT", 41, 7, 950, 967, range_seq=3, range_name=spool.string(1, "kept"))
    rows = by_name(analysis.ranges(tables_of(spool)))
    assert (rows["lost"]["calls"], rows["lost"]["samples"], rows["lost"]["self_on_cpu_ns"]) == (0, 1, 13)
    assert (rows["kept"]["calls"], rows["kept"]["off_cpu_ns"]) == (1, 17)


def test_by_function(training: Capture) -> None:
    rows = by_name(analysis.functions(training.columns))
    assert {"Py_RunMain", "_PyEval_EvalFrameDefault"}.isdisjoint(rows)
    gemm, main = rows["gemm"], rows["main"]
    assert (gemm["self_samples"], gemm["samples"], gemm["self_on_cpu_ns"]) == (3, 3, 300)
    assert (main["self_samples"], main["samples"], main["on_cpu_ns"], main["off_cpu_ns"]) == (0, 3, 300, 300)
    assert (main["kind"], main["file"], main["line"]) == ("python", "train.py", 10)
    assert rows["__schedule"]["self_off_cpu_ns"] == 300


def test_recursion_counts_once(spool: SpoolWriter) -> None:
    for frame, (name, line) in enumerate([("fib", 3), ("fib", 4), ("main", 9)], start=1):
        spool.object("frame", id=frame, kind="python", name=name, file="a.py", line=line)
    spool.object("stack", id=1, frames=[1, 2, 2, 2, 3])
    spool.object("stack", id=2, frames=[2, 2, 3])
    for ts_ns in range(5):
        spool.sample("SAMPLE", 41, 41, ts_ns, ts_ns, stack=1 + ts_ns % 2, weight_ns=7)
    rows = by_name(analysis.functions(tables_of(spool)))
    assert set(rows) == {"fib", "main"}
    assert (rows["fib"]["samples"], rows["fib"]["self_samples"], rows["fib"]["on_cpu_ns"]) == (5, 5, 35)
    assert rows["fib"]["line"] == 4  # on every stack; line 3 on three of five
    assert (rows["main"]["samples"], rows["main"]["self_samples"]) == (5, 0)


def test_by_thread(training: Capture) -> None:
    rows = by_name(analysis.threads(training.columns))
    assert {name: (row["tid"], row["calls"], row["samples"], row["waits"]) for name, row in rows.items()} == {
        "train": (41, 3, 3, 0),
        "loader-0": (43, 1, 0, 1),
    }
    assert (rows["train"]["on_cpu_ns"], rows["train"]["off_cpu_ns"], rows["train"]["runnable_ns"]) == (700, 300, 20)


def test_a_thread_that_nobody_measured_has_no_times(spool: SpoolWriter) -> None:
    spool.record(1, 7, "step", 10, 20, seq=1)
    (row,) = by_name(analysis.threads(tables_of(spool))).values()
    assert (row["tid"], row["calls"], row["on_cpu_ns"], row["switches"]) == (7, 1, -1, -1)
    (process,) = by_name(analysis.processes(tables_of(spool))).values()
    assert (process["pid"], process["threads"], process["on_cpu_ns"]) == (41, 1, -1)


def test_by_process(training: Capture) -> None:
    (row,) = by_name(analysis.processes(training.columns)).values()
    assert (row["name"], row["threads"], row["calls"], row["samples"], row["waits"]) == ("train", 2, 4, 3, 1)
    assert (row["on_cpu_ns"], row["off_cpu_ns"], row["switches"]) == (700, 1_300, 4)


def test_by_wait(training: Capture) -> None:
    (row,) = by_name(analysis.waits(training.columns)).values()
    assert (row["name"], row["file"], row["line"], row["reason"]) == ("get", "queue.py", 171, "futex_wait_queue")
    assert (row["count"], row["off_cpu_ns"], row["max_ns"], row["runnable_ns"]) == (1, 300, 300, 20)
    assert (row["state"], row["woken_by"], row["range"]) == ("sleeping", "train (41)", "load")


def test_waits_in_one_place_are_one_row(spool: SpoolWriter) -> None:
    spool.object("frame", id=1, kind="kernel", name="schedule")
    spool.object("frame", id=2, kind="kernel", name="pipe_read")
    spool.object("frame", id=3, kind="python", name="recv", file="c.py", line=1)
    spool.object("stack", id=1, frames=[1, 2, 3])
    spool.object("stack", id=2, frames=[2, 3])
    spool.object("thread", pid=41, tid=9, comm="writer")
    spool.sample("WAIT", 41, 7, 0, 100, stack=1, waker_pid=41, waker_tid=9)
    spool.sample("WAIT", 41, 7, 200, 230, stack=2, waker_pid=41, waker_tid=8)
    spool.sample("WAIT", 41, 7, 300, 301, stack=2, flags=8)  # preempted
    columns = analysis.waits(tables_of(spool))
    rows = sorted(zip(columns["reason"], columns["count"], columns["off_cpu_ns"], columns["woken_by"]))
    assert rows == [("pipe_read", 2, 130, "writer (9)"), ("preempted", 1, 1, "")]


def test_nothing_recorded_gives_no_rows(spool: SpoolWriter) -> None:
    tables = tables_of(spool)
    for view in (analysis.ranges, analysis.functions, analysis.threads, analysis.processes, analysis.waits):
        assert {len(column) for column in view(tables).values()} == {0}


@settings(max_examples=50, deadline=None)
@given(threads(), st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)), max_size=30))
def test_samples_of_random_trees(all_threads: list[list[Range]], picks: list[tuple[int, int]]) -> None:
    """Each sample counts for its range and every range around it; each name by the sum over its ranges."""
    writer = spool_of(all_threads)
    flat = [(ranges, seq) for ranges in all_threads for seq in range(1, len(ranges) + 1)]
    own: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for pick, weight_ns in picks if flat else []:
        ranges, seq = flat[pick % len(flat)]
        made = ranges[seq - 1]
        writer.sample("SAMPLE", 41, made.tid, made.start_ns, made.start_ns, range_seq=seq, weight_ns=weight_ns)
        own[made.name] += weight_ns
        above: Range | None = made
        while above:
            total[above.name] += weight_ns
            above = None if above.parent is None else ranges[above.parent]
    rows = by_name(analysis.ranges(tables_of(writer)))
    assert {name: row["self_on_cpu_ns"] for name, row in rows.items() if row["self_on_cpu_ns"]} == own
    assert {name: row["on_cpu_ns"] for name, row in rows.items() if row["on_cpu_ns"]} == total


@pytest.mark.parametrize("depth", [1, 300, 65_535])
def test_deep_chains_are_summed(spool: SpoolWriter, depth: int) -> None:
    spool.record(1, 7, "deep", 0, 10**6, seq=1)
    (first,) = spool._records[1]
    chain = np.repeat(np.array([first]), depth + 1)
    chain["seq"] = np.arange(1, depth + 2)
    chain["parent"] = np.arange(depth + 1)
    chain["depth"] = np.arange(depth + 1)
    spool._records[1] = list(chain)
    spool.sample("SAMPLE", 41, 7, 5, 5, range_seq=depth + 1, weight_ns=3)
    (row,) = by_name(analysis.ranges(tables_of(spool))).values()
    assert (row["samples"], row["on_cpu_ns"], row["self_on_cpu_ns"]) == (depth + 1, 3 * (depth + 1), 3)


def test_by_kernel() -> None:
    rows = by_name(analysis.kernels(tables_of(gpu_spool())))
    assert set(rows) == {"void gemm<float>(float*)", "relu", "node", "late", "Memcpy HtoD"}
    gemm = rows["void gemm<float>(float*)"]
    assert (gemm["calls"], gemm["device_ns"], gemm["mean_ns"], gemm["max_ns"]) == (2, 517, 258, 500)
    assert (gemm["device"], gemm["kind"], gemm["range"], gemm["launched_at"]) == (0, "kernel", "aten::mm", "")
    assert gemm["busy_share"] == 517 / 1_410
    assert (rows["node"]["calls"], rows["node"]["range"]) == (3, "cudaGraphLaunch")
    assert rows["Memcpy HtoD"]["kind"] == "memcpy"


def test_places_of_launches_in_one_function_are_told_apart_by_their_callers(spool: SpoolWriter) -> None:
    functions = {1: ("launch", 3), 2: ("forward", 4), 3: ("forward", 5), 4: ("main", 9), 5: ("alone", 1)}
    for frame, (name, line) in functions.items():
        spool.object("frame", id=frame, kind="python", name=name, file="src/a.py", line=line)
    stacks = {1: [1, 2, 4], 2: [1, 3, 4], 3: [1], 4: [5, 4], 5: [1, 3]}
    for stack, frames in stacks.items():
        spool.object("stack", id=stack, frames=frames)
        spool.call(1, 41, "cudaLaunchKernel", 100 * stack, 100 * stack + 50, stack, seq=stack)
        spool.sample("CALL", 41, 41, 100 * stack + 10, 100 * stack + 10, range_seq=stack, stack=stack)
        spool.activity(1, 3, 100 * stack, 100 * stack + 90, stack, device=0)
    rows = analysis.launches(tables_of(spool))
    callers = dict(zip(rows["stack"].tolist(), rows["caller"].tolist()))
    launch, main = "src/a.py(3): launch", "src/a.py(9): main"
    assert callers == {
        f"{launch};src/a.py(4): forward;{main}": "src/a.py(4): forward",
        f"{launch};src/a.py(5): forward;{main}": main,
        launch: "",
        f"src/a.py(1): alone;{main}": "",
        f"{launch};src/a.py(5): forward": "",
    }


def test_kernels_of_one_name_on_two_devices_are_two_rows(spool: SpoolWriter) -> None:
    for device, end_ns in ((0, 17), (1, 29), (1, 31)):
        spool.activity(1, 3, 10, end_ns, name="k", device=device, stream=end_ns)
    columns = analysis.kernels(tables_of(spool))
    found = zip(columns["device"].tolist(), columns["calls"].tolist(), columns["device_ns"].tolist())
    assert list(found) == [(0, 1, 7), (1, 2, 40)]
    assert columns["busy_share"].tolist() == [1, 40 / 21]


def test_a_device_is_busy_while_anything_runs_there(spool: SpoolWriter) -> None:
    work = [(100, 200, 1), (110, 120, 1), (150, 250, 2), (300, 307, 2), (250, 255, 1)]
    for start_ns, end_ns, stream in work:
        spool.activity(1, 3, start_ns, end_ns, name="k", device=3, stream=stream)
    spool.activity(1, 38, 0, 10_000, device=3, stream=1)  # waiting is no work
    rows = by_name(analysis.devices(tables_of(spool)))
    keys = ("busy_ns", "idle_ns", "gaps", "longest_gap_ns", "activities")
    assert {name: tuple(row[key] for key in keys) for name, row in rows.items()} == {
        "GPU 3": (162, 45, 1, 45, 5),
        "GPU 3 stream 1": (105, 50, 1, 50, 3),
        "GPU 3 stream 2": (107, 50, 1, 50, 2),
    }
    assert rows["GPU 3"]["busy_share"] == 162 / 207


def test_streams_of_two_processes_that_have_one_number_are_two(spool: SpoolWriter) -> None:
    spool.region(2, 42)
    for region, stream, start_ns in ((1, 7, 100), (2, 7, 120), (1, 9, 130)):
        spool.call(region, 40 + region, "cudaLaunchKernel", 10, 20, number=start_ns)
        spool.activity(region, 3, start_ns, start_ns + 50, start_ns, name="k", device=0, stream=stream)
    rows = by_name(analysis.devices(tables_of(spool)))
    assert {name: (row["pid"], row["busy_ns"]) for name, row in rows.items()} == {
        "GPU 0": (0, 80),
        "GPU 0 stream 7 of process 41": (41, 50),
        "GPU 0 stream 7 of process 42": (42, 50),
        "GPU 0 stream 9": (0, 50),
    }


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 20), st.integers(0, 2), st.integers(1, 2)), max_size=25))
@settings(max_examples=60, deadline=None)
def test_busy_time_of_random_work(work: list[tuple[int, int, int, int]]) -> None:
    writer = SpoolWriter()
    writer.region(1, 41)
    busy: dict[tuple[int, int], set[int]] = defaultdict(set)
    for start_ns, duration, device, stream in work:
        writer.activity(1, 3, start_ns, start_ns + duration, name="k", device=device, stream=stream)
        for place in ((device, -1), (device, stream)):
            busy[place].update(range(start_ns, start_ns + duration))
    columns = analysis.devices(tables_of(writer))
    places = zip(columns["device"].tolist(), columns["stream"].tolist())
    assert dict(zip(places, columns["busy_ns"].tolist())) == {place: len(moments) for place, moments in busy.items()}


def test_ranges_have_the_time_of_the_work_that_was_launched_in_them() -> None:
    rows = by_name(analysis.ranges(tables_of(gpu_spool())))
    assert {name: (row["self_device_ns"], row["device_ns"]) for name, row in rows.items() if row["device_ns"]} == {
        "step": (0, 1_300),
        "aten::mm": (1_300, 1_300),
        "cudaGraphLaunch": (330, 330),
        "cudaLaunchKernel": (13, 13),
        "eval": (17, 17),
    }
