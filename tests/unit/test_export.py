"""Exports: valid for other tools whatever the names are, whole or not there, the same every time."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from export_captures import device_capture
from hypothesis import given, settings
from hypothesis import strategies as st
from real_profiles import real_profile
from spool_writer import SECOND, SpoolWriter

from pillion._capture import Capture, read_spool_capture
from pillion._tables import from_rows
from pillion.export.collapsed import write_collapsed
from pillion.importers.profile_file import import_trace
from pillion.merge import merge
from pillion.merge.spool import parse_spool
from pillion.model import EventList, event_list


def capture_of(writer: SpoolWriter) -> Capture:
    tables, meta = merge(parse_spool(writer.to_bytes()))
    return Capture(tables, meta)


@pytest.fixture
def trace(training: Capture, tmp_path: Path) -> dict[str, Any]:
    training.export_chrome_trace(tmp_path / "trace.json")
    loaded: dict[str, Any] = json.loads((tmp_path / "trace.json").read_text())
    return loaded


def with_category(trace: dict[str, Any], category: str) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event.get("cat") == category]


def test_ranges_are_slices(trace: dict[str, Any]) -> None:
    assert (trace["schemaVersion"], trace["displayTimeUnit"]) == (1, "ms")
    assert trace["baseTimeNanoseconds"] == 5 * SECOND + 1_000
    slices = with_category(trace, "user_annotation")
    assert [(event["ph"], event["name"], event["tid"], event["ts"], event["dur"]) for event in slices] == [
        ("X", "step", 41, 0.0, 1.0),
        ("X", "forward", 41, 0.1, 0.3),
        ("X", "backward", 41, 0.5, 0.4),
        ("X", "load", 43, 0.2, 0.5),
    ]
    assert slices[1]["args"] == {"args": "layer 1"}


def test_processes_and_threads_have_names(trace: dict[str, Any]) -> None:
    names = [
        (event["name"], event["tid"], *event["args"].values()) for event in trace["traceEvents"] if event["ph"] == "M"
    ]
    assert names == [
        ("process_name", 0, "train"),
        ("process_labels", 0, "CPU"),
        ("process_sort_index", 0, 41),
        ("thread_name", 41, "train (41)"),
        ("thread_sort_index", 41, 41),
        ("thread_name", 43, "loader-0 (43)"),
        ("thread_sort_index", 43, 43),
    ]


def test_waits_and_samples_refer_to_their_stacks(trace: dict[str, Any]) -> None:
    (wait,) = with_category(trace, "wait")
    assert (wait["ph"], wait["name"], wait["tid"], wait["ts"], wait["dur"]) == ("X", "futex_wait_queue", 43, 0.3, 0.3)
    samples = with_category(trace, "sample")
    assert [(event["ph"], event["name"], event["ts"]) for event in samples] == [
        ("i", "gemm", 0.15),
        ("i", "gemm", 0.25),
        ("i", "gemm", 0.95),
    ]
    frame, names = samples[0]["sf"], []
    while frame:
        names.append(trace["stackFrames"][frame]["name"])
        frame = trace["stackFrames"][frame].get("parent")
    assert names == ["gemm", "matmul", "main"]


def test_a_range_that_ended_elsewhere_is_an_async_pair(spool: SpoolWriter, tmp_path: Path) -> None:
    spool.object("meta", start_ns=0)
    spool.record(1, 7, "request", 1_000, 9_000, seq=1, end_tid=8, flags=2)
    spool.record(1, 7, "mark", 2_000, 2_000, kind=2, value=5)
    spool.record(1, 7, "open", 3_000, 4_000, seq=2, flags=1)
    capture_of(spool).export_chrome_trace(tmp_path / "t.json")
    events = with_category(json.loads((tmp_path / "t.json").read_text()), "user_annotation")
    assert [(event["ph"], event["name"], event["tid"], event["ts"]) for event in events] == [
        ("b", "request", 7, 1.0),
        ("i", "mark", 7, 2.0),
        ("X", "open", 7, 3.0),
        ("e", "request", 8, 9.0),
    ]
    assert events[2]["args"] == {"unfinished": True}
    assert events[1]["args"] == {"value": 5}
    assert events[0]["id"] == events[3]["id"]


@settings(max_examples=50, deadline=None)
@given(name=st.text(), args=st.text(min_size=1), comm=st.text(), frame=st.text())
def test_any_text_gives_valid_json(
    name: str, args: str, comm: str, frame: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    spool = SpoolWriter()
    spool.region(1, 41)
    spool.object("process", pid=41, start_ns=1, comm=comm)
    spool.object("frame", id=1, kind="python", name=frame, file=frame, line=1)
    spool.object("stack", id=1, frames=[1])
    spool.record(1, 7, name, 10, 20, seq=1, args=args)
    spool.sample("SAMPLE", 41, 7, 15, 15, stack=1)
    path = tmp_path_factory.mktemp("t") / "trace.json"
    capture_of(spool).export_chrome_trace(path)
    trace = json.loads(path.read_text())
    (event,) = with_category(trace, "user_annotation")
    assert (event["name"], event["args"]["args"]) == (name, args)
    assert with_category(trace, "sample")[0]["name"] == frame


def test_a_trace_of_nothing_is_valid(spool: SpoolWriter, tmp_path: Path) -> None:
    capture_of(spool).export_chrome_trace(tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"] == []


def test_a_gz_path_is_gzipped_and_exporting_again_gives_the_same(training: Capture, tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    training.export_chrome_trace(path)
    first = path.read_bytes()
    training.export_chrome_trace(path)
    assert path.read_bytes() == first
    assert len(with_category(json.loads(gzip.decompress(first)), "sample")) == 3
    assert [file.name for file in tmp_path.iterdir() if "trace" in file.name] == ["trace.json.gz"]


def test_a_bad_path_is_an_os_error_and_leaves_nothing(training: Capture, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        training.export_chrome_trace(tmp_path / "none" / "trace.json")
    with pytest.raises(OSError, match="directory"):
        training.export_chrome_trace(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["training.spool"]


def test_an_export_that_fails_keeps_the_old_file(
    training: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.json"
    path.write_text("old")
    monkeypatch.setattr("pillion.export.chrome.write_samples", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        training.export_chrome_trace(path)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2


def test_collapsed_stacks(training: Capture, tmp_path: Path) -> None:
    write_collapsed(training, tmp_path / "on.txt")
    assert (tmp_path / "on.txt").read_text() == "main (train.py);matmul (model.py);gemm 3\n"


def test_collapsed_waits_are_in_microseconds(spool: SpoolWriter, tmp_path: Path) -> None:
    for frame, (kind, name) in enumerate([("kernel", "do_nanosleep"), ("python", "a;b c\n")], start=1):
        spool.object("frame", id=frame, kind=kind, name=name)
    spool.object("stack", id=1, frames=[1, 2])
    spool.sample("WAIT", 41, 7, 0, 7_900, stack=1)
    spool.sample("WAIT", 41, 7, 0, 300, stack=0)
    write_collapsed(capture_of(spool), tmp_path / "off.txt", off_cpu=True)
    assert (tmp_path / "off.txt").read_text() == "a:b c ;do_nanosleep_[k] 7\n"


def test_an_event_list_exports_a_bare_array(training: Capture, tmp_path: Path) -> None:
    training.function_events.export_chrome_trace(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())
    assert [event["name"] for event in events] == ["step", "forward", "load", "backward"]
    assert events[1] | {"ts": 0, "dur": 0} == {
        "name": "forward",
        "ph": "X",
        "ts": 0,
        "dur": 0,
        "tid": 41,
        "pid": "CPU functions",
        "args": {},
    }


def alike(capture: Capture, folder: Path) -> int:
    """How many elements a list exports, from columns as from objects."""
    events = event_list(capture.columns, capture.meta["start_ns"])
    events.export_chrome_trace(folder / "columns.json")
    EventList(list(events)).export_chrome_trace(folder / "objects.json")
    columns, objects = (json.loads((folder / f"{name}.json").read_text()) for name in ("columns", "objects"))
    assert columns == objects
    return len(objects)


def test_events_export_alike_as_columns_and_as_objects(training: Capture, tmp_path: Path) -> None:
    assert alike(training, tmp_path) == 4
    flows = 3
    assert alike(device_capture(), tmp_path) == 9 + 3 + flows
    assert alike(import_trace(real_profile("kineto/cpu_only.pt.trace.json.gz")), tmp_path) == 15


def test_no_events_export_as_an_empty_array(training: Capture, tmp_path: Path) -> None:
    training.columns["events"] = from_rows("events", [])
    assert alike(training, tmp_path) == 0


def test_an_event_list_exports_stacks(training: Capture, tmp_path: Path) -> None:
    events = training.function_events
    events[0].stack = ["model.py(2): for ward", "train.py(1): main"]
    events[0].time_range.end = events[0].time_range.start + 8.5
    events.export_stacks(tmp_path / "stacks.txt", "self_cpu_time_total")
    events.pop()
    with pytest.raises(ValueError, match="metric should be one of"):
        events.export_stacks(tmp_path / "stacks.txt", "cpu_time_total")


def test_the_spool_reader_and_the_exports_agree_on_damage(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    path.write_bytes(b"")
    capture = read_spool_capture(path)
    capture.export_chrome_trace(tmp_path / "t.json")
    write_collapsed(capture, tmp_path / "c.txt")
    assert (tmp_path / "c.txt").read_text() == ""


def test_without_samples_collapsed_stacks_are_of_ranges(tmp_path: Path) -> None:
    capture = device_capture()
    capture.columns |= {name: from_rows(name, []) for name in ("samples", "waits")}
    write_collapsed(capture, tmp_path / "ranges.txt")
    assert (tmp_path / "ranges.txt").read_text().splitlines() == [
        "Context Sync 1",
        "MmBackward0 1",
        "ProfilerStep#3 6",
        "ProfilerStep#3;aten::mm 3",
        "ProfilerStep#3;aten::mm;gemm<float> 4",
    ]


def test_what_is_nested_too_deep_counts_for_what_is_around_it(
    spool: SpoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pillion.export._call_tree._DEPTH_MAX", 2)
    for depth, name in enumerate("abcd"):
        start, end = depth * 10_000, 100_000 - depth * 10_000
        spool.record(1, 7, name, start, end, seq=depth + 1, parent=depth, depth=depth)
    write_collapsed(capture_of(spool), tmp_path / "ranges.txt")
    assert (tmp_path / "ranges.txt").read_text() == "a 20\na;b 80\n"
