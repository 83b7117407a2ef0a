"""Reports for people and for programs, and the two commands that read captures."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spool_writer import SpoolWriter, gpu_spool, training_spool

from pillion._capture import SPOOL_NAME, Capture, write_capture
from pillion._errors import CaptureError, PillionError, UsageError
from pillion.commands import export, report
from pillion.merge import merge
from pillion.merge.spool import parse_spool
from pillion.render import units
from pillion.render.json_report import render_json
from pillion.render.notes import LOSS_KINDS
from pillion.render.summary import render_summary
from pillion.render.text import WIDTH, cut, render_report
from pillion.render.views import VIEWS

TRAINING = training_spool()
GPU_VIEWS = ("gpu", "kernel", "launch")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "job.pillion"
    path.mkdir()
    (path / SPOOL_NAME).write_bytes(TRAINING)
    write_capture(path / SPOOL_NAME, path)
    return path


def run(command: Any, *words: object) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return int(command.run(parser.parse_args([str(word) for word in words])))


def test_a_report_shows_the_rows_and_what_they_rest_on(training: Capture) -> None:
    assert render_report(training, "range").splitlines() == [
        "by range: wall time measured, on-CPU time sampled, off-CPU time measured",
        "",
        "calls  self wall    wall  samples  on CPU  off CPU  range",
        "    1      300ns  1.00us        3   300ns        0  step",
        "    1      500ns   500ns        0       0    300ns  load",
        "    1      400ns   400ns        0       0        0  backward",
        "    1      300ns   300ns        2   200ns        0  forward",
        "",
        "4 ranges measured, 3 samples at 99 Hz, 1 wait of 100us or longer",
        "lost: nothing",
        "cost: the agent used 5.00% of one CPU and 1.00 MB of memory",
    ]


def test_a_limit_says_what_it_hides(training: Capture) -> None:
    lines = render_report(training, "range", limit=1).splitlines()
    assert [lines[3].split()[-1], lines[4]] == ["step", "… 3 more; --limit 0 shows all"]


@pytest.mark.parametrize("by", [by for by in VIEWS if by not in GPU_VIEWS])
def test_json_has_the_same_frame_for_every_view(training: Capture, by: str) -> None:
    answer = json.loads(render_json(training, by))
    assert set(answer) == {"meta", "losses", "rows"}
    assert set(LOSS_KINDS) <= set(answer["losses"])
    assert all(type(count) is int for count in answer["losses"].values())
    assert answer["rows"]
    assert all("name" in row and "off_cpu_ns" in row for row in answer["rows"])


def test_json_of_ranges_has_the_contracts_keys(training: Capture) -> None:
    rows = {row["name"]: row for row in json.loads(render_json(training, "range"))["rows"]}
    assert list(rows) == ["step", "load", "backward", "forward"]
    keys = ("calls", "self_cpu_ns", "cpu_total_ns", "samples", "on_cpu_ns", "off_cpu_ns")
    assert [rows["step"][key] for key in keys] == [1, 300, 1_000, 3, 300, 0]


def test_losses_are_summed_over_threads_and_shown() -> None:
    spool = SpoolWriter()
    for tid, count in ((1, 3), (2, 4)):
        spool.object("loss", kind="ring_full", pid=41, tid=tid, count=count)
    spool.object("end", end_ns=1)
    tables, meta = merge(parse_spool(spool.to_bytes()))
    capture = Capture(tables, meta)
    assert json.loads(render_json(capture, "range"))["losses"]["ring_full"] == 7
    assert "lost: 7 ring_full" in render_report(capture, "range")


def test_a_report_says_why_there_are_no_python_stacks(spool: SpoolWriter) -> None:
    for pid in (41, 42):
        spool.object("process", pid=pid, start_ns=1, python="3.99", python_unavailable="CPython 3.99 is not known")
    spool.object("process", pid=43, start_ns=1, python="3.11", python_unavailable=None)
    text = render_summary(Capture(*merge(parse_spool(spool.to_bytes()))))
    assert "no Python stacks of 2 processes: CPython 3.99 is not known" in text.splitlines()


def test_what_nobody_measured_is_null_and_a_dash(spool: SpoolWriter) -> None:
    spool.record(1, 7, "step", 10, 20, seq=1)
    tables, meta = merge(parse_spool(spool.to_bytes()))
    capture = Capture(tables, meta)
    (row,) = json.loads(render_json(capture, "thread"))["rows"]
    assert row["on_cpu_ns"] is None
    assert render_report(capture, "thread").splitlines()[3].split()[3:7] == ["-"] * 4


def test_sort_keys_are_columns(training: Capture) -> None:
    names = [row["name"] for row in json.loads(render_json(training, "range", "name"))["rows"]]
    assert names == sorted(names)
    with pytest.raises(UsageError, match=r"cannot sort by nothing: .*cpu_total_ns"):
        render_report(training, "range", "nothing")


def test_a_summary_has_the_top_of_three_views(training: Capture) -> None:
    lines = render_summary(training).splitlines()
    assert [line for line in lines if line in ("ranges", "hottest functions", "where it waited")] == [
        "ranges",
        "hottest functions",
        "where it waited",
    ]
    assert "futex_wait_queue in get (queue.py:171) ← train (41)" in lines[-5]


@settings(max_examples=50, deadline=None)
@given(
    name=st.text(max_size=300),
    cut_at=st.integers(0, len(TRAINING)),
    flips=st.lists(st.tuples(st.integers(0, len(TRAINING) - 1), st.integers(1, 255)), max_size=5),
)
def test_reports_stay_in_shape_whatever_was_recorded(name: str, cut_at: int, flips: list[tuple[int, int]]) -> None:
    spool = SpoolWriter()
    spool.region(1, 41)
    spool.record(1, 41, name, 10, 20, seq=1)
    damaged = bytearray(TRAINING)
    for place, bits in flips:
        damaged[place] ^= bits
    spool.activity(1, 3, 20, 30, name=name)
    spool.notice(1, name)
    for data in (spool.to_bytes(), bytes(damaged[:cut_at])):
        try:
            tables, meta = merge(parse_spool(data))
        except PillionError:
            continue
        capture = Capture(tables, meta)
        for by in VIEWS:
            assert max(map(len, render_report(capture, by).splitlines()[2:-3])) <= WIDTH
            json.loads(render_json(capture, by))
        render_summary(capture)
        capture.key_averages().table()


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [(None, "-"), (0, "0"), (999, "999ns"), (1_000, "1.00us"), (12_345_678, "12.3ms"), (3_600 * 10**9, "3,600s")],
)
def test_times_for_people(time_ns: int | None, text: str) -> None:
    assert units.seconds(time_ns) == text


def test_long_names_keep_both_ends() -> None:
    assert cut("a" * 20 + "b" * 20, 10) == "aaaaaa…bbb"
    assert cut("line\nbreak\x1b[0m", 40) == "line?break?[0m"


# ---- GPUs ----


@pytest.fixture
def gpu() -> Capture:
    spool = gpu_spool()
    spool.object("frame", id=1, kind="python", name="matmul", file="src/train.py", line=20, module="")
    spool.object("stack", id=1, frames=[1])
    spool.sample("CALL", 41, 41, 1_450, 1_450, range_seq=5, stack=1)
    return Capture(*merge(parse_spool(spool.to_bytes())))


def test_a_report_of_ranges_shows_what_gpus_did(gpu: Capture) -> None:
    assert render_report(gpu, "range", limit=3).splitlines() == [
        "by range: wall time measured, on-CPU time sampled, off-CPU time measured",
        "",
        "calls  self wall    wall  samples  on CPU  off CPU     GPU  range",
        "    1     2.10us  4.00us        0       0        0  1.30us  step",
        "    1     1.90us  2.00us        0       0        0    17ns  eval",
        "    1     1.60us  1.90us        0       0        0  1.30us  aten::mm",
        "… 4 more; --limit 0 shows all",
        "",
        "GPUs and their streams",
        " busy  busy for  idle for  gaps  longest gap  activities  where",
        "24.0%    1.41us    4.45us     5       3.70us           8  GPU 0",
        "16.1%     943ns    4.92us     5       3.70us           6  GPU 0 stream 7 of process 41",
        " 100%     700ns         0     0            0           1  GPU 0 stream 13",
        " 100%      17ns         0     0            0           1  GPU 0 stream 7 of process 42",
        "",
        "GPU kernels and copies",
        "calls  total   mean  longest  share  GPU  kernel ← launched at",
        "    1  700ns  700ns    700ns  49.6%    0  relu ← train.py(20): matmul",
        "    2  517ns  258ns    500ns  36.7%    0  void gemm<float>(float*) ← train.py(20): matmul",
        "    3  330ns  110ns    110ns  23.4%    0  node",
        "    1  100ns  100ns    100ns  7.09%    0  Memcpy HtoD ← train.py(20): matmul",
        "    1   13ns   13ns     13ns  0.92%    0  late",
        "",
        "10 ranges measured, 8 GPU activities, 0 waits; no sampling was asked for",
        "lost: nothing",
    ]
    assert "GPU kernels and copies" in render_summary(gpu).splitlines()


def test_json_of_ranges_has_what_gpus_did(gpu: Capture) -> None:
    answer = json.loads(render_json(gpu, "range"))
    assert {row["name"]: row["busy_ns"] for row in answer["gpus"]}["GPU 0"] == 1_410
    assert {row["name"]: row["device_ns"] for row in answer["kernels"]}["node"] == 330
    assert {row["name"]: (row["device_ns"], row["self_device_ns"]) for row in answer["rows"]}["step"] == (1_300, 0)


def test_a_report_by_launch_says_where_work_came_from(gpu: Capture) -> None:
    lines = render_report(gpu, "launch").splitlines()
    assert lines[2:7] == [
        "launches  activities     GPU  where",
        "       3           3  1.30us  matmul (train.py:20) in aten::mm",
        "       1           3   330ns  (no stack) in cudaGraphLaunch",
        "       1           1    17ns  (no stack) in eval",
        "       1           1    13ns  (no stack) in cudaLaunchKernel",
    ]
    (row, *_) = json.loads(render_json(gpu, "launch"))["rows"]
    assert (row["stack"], row["file"], row["line"]) == ("src/train.py(20): matmul", "src/train.py", 20)


@pytest.mark.parametrize("by", GPU_VIEWS)
def test_a_capture_without_gpus_has_nothing_of_them(training: Capture, by: str) -> None:
    assert "(nothing recorded)" in render_report(training, by)
    assert json.loads(render_json(training, by))["rows"] == []
    assert "device_ns" not in json.loads(render_json(training, "range"))["rows"][0]
    assert "GPU" not in render_report(training, "range") + render_summary(training)


def test_notes_have_what_sources_say() -> None:
    spool = SpoolWriter()
    for region in range(1, 6):
        spool.region(region, 40 + region)
        spool.notice(region, "CUPTI is held by another profiler: no GPU activity")
        spool.notice(region, "", "CLOCK", value=10 * region)
    spool.notice(1, "a line\x1b[0m\nand another")
    lines = render_report(Capture(*merge(parse_spool(spool.to_bytes()))), "range").splitlines()
    assert lines[-4:] == [
        "GPU times ±50ns",
        "processes 41, 42, 43 and 2 more: CUPTI is held by another profiler: no GPU activity",
        "process 41: a line?[0m?and another",
        "lost: 1 unfinished",
    ]


def test_losses_of_gpus_are_explained() -> None:
    spool = gpu_spool()
    spool.object("loss", kind="device_records", pid=41, tid=0, count=7)
    lines = render_report(Capture(*merge(parse_spool(spool.to_bytes()))), "kernel").splitlines()
    assert lines[-2:] == [
        "lost: 7 device_records",
        "  device_records: GPU activities that the driver dropped, or that came in no known form",
    ]


# ---- commands ----


def test_report_prints(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(report, directory, "--by", "function", "--limit", "1") == 0
    assert "gemm" in capsys.readouterr().out
    assert run(report, directory, "--json", "--limit", "2") == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 2


def test_report_refuses_what_makes_no_sense(directory: Path) -> None:
    with pytest.raises(UsageError, match="negative"):
        run(report, directory, "--limit", "-1")
    with pytest.raises(UsageError, match="it has name, calls"):
        run(report, directory, "--sort", "nothing")
    with pytest.raises(CaptureError):
        run(report, directory / "none")


def test_the_views_of_the_command_are_those_of_the_renderer() -> None:
    assert set(report._VIEWS) == set(VIEWS)


def test_export_writes_and_does_not_overwrite(directory: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert run(export, directory, "-f", "chrome", "-o", target) == 0
    assert json.loads(target.read_text())["traceEvents"]
    with pytest.raises(PillionError, match="it exists; add --force"):
        run(export, directory, "-f", "collapsed", "-o", target)
    assert run(export, directory, "-f", "collapsed", "-o", target, "--force") == 0
    assert target.read_text().endswith("gemm 3\n")
    assert run(export, directory, "-f", "collapsed", "--off-cpu", "-o", target, "--force") == 0


def test_export_refuses_what_makes_no_sense(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--off-cpu"):
        run(export, directory, "-f", "chrome", "--off-cpu", "-o", tmp_path / "out")
    with pytest.raises(PillionError, match=r"cannot write .*: No such file"):
        run(export, directory, "-f", "chrome", "-o", tmp_path / "none" / "out")
