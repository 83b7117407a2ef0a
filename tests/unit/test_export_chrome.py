"""Kineto's JSON: what it has of operators and devices, read by tools that are not ours."""

from __future__ import annotations

import gzip
import importlib.util
import json
import logging
import warnings
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from export_captures import device_capture
from hypothesis import given, settings
from hypothesis import strategies as st
from real_profiles import real_profile

from pillion._capture import Capture
from pillion._errors import CaptureError
from pillion.export._json_rows import members, value
from pillion.importers.profile_file import import_trace


@pytest.fixture
def events(tmp_path: Path) -> list[dict[str, Any]]:
    return load(device_capture(), tmp_path)["traceEvents"]  # type: ignore[no-any-return]


def load(capture: Capture, folder: Path) -> dict[str, Any]:
    capture.export_chrome_trace(folder / "trace.json")
    loaded: dict[str, Any] = json.loads((folder / "trace.json").read_bytes(), parse_constant=pytest.fail)
    return loaded


def named(events: list[dict[str, Any]], name: str, phase: str = "X") -> list[dict[str, Any]]:
    return [event for event in events if (event["name"], event["ph"]) == (name, phase)]


def test_operators_have_kinetos_categories_and_args(events: list[dict[str, Any]]) -> None:
    (operator,) = named(events, "aten::mm")
    assert (operator["cat"], operator["ts"], operator["dur"]) == ("cpu_op", 1.0, 4.0)
    assert operator["args"] == {
        "External id": 2,
        "Sequence number": 7,
        "Fwd thread id": 0,
        "Input Dims": [[2, 3], [3, 5]],
        "Call stack": "model.py(20): matmul;train.py(10): main",
    }
    (backward,) = named(events, "MmBackward0")
    assert backward["args"]["Fwd thread id"] == 1
    (call,) = named(events, "cudaLaunchKernel")
    assert (call["cat"], call["args"]) == ("cuda_runtime", {"External id": 2, "correlation": 101, "cbid": 211})


def test_work_of_devices_is_on_their_streams(events: list[dict[str, Any]]) -> None:
    kernel, again = named(events, "gemm<float>")
    assert [kernel[key] for key in ("cat", "pid", "tid", "ts", "dur")] == ["kernel", 0, 7, 4.0, 2.5]
    assert kernel["args"] == {
        "External id": 2,
        "device": 0,
        "context": 1,
        "stream": 7,
        "correlation": 101,
        "grid": [1, 2, 1],
        "block": [32, 1, 1],
    }
    assert again["args"]["correlation"] == 101
    (copy,) = named(events, "Memcpy HtoD")
    assert (copy["cat"], copy["args"]["bytes"]) == ("gpu_memcpy", 4096)
    (sync,) = named(events, "Context Sync")
    assert (sync["cat"], sync["tid"]) == ("cuda_sync", -1)
    labels = {event["pid"]: event["args"]["labels"] for event in named(events, "process_labels", "M")}
    assert labels == {41: "CPU", 0: "GPU 0"}


def test_memory_is_on_the_thread_that_allocated_it(tmp_path: Path) -> None:
    where = {"pid": 7, "tid": 8}
    memory = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", **where}
    of_host, of_device = (
        {"Bytes": 64, "Device Id": -1, "Device Type": 0},
        {"Bytes": 512, "Device Id": 3, "Device Type": 1},
    )
    source = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::empty", **where, "ts": 0, "dur": 10, "args": {}},
        {**memory, "ts": 5, "args": of_host},
        {**memory, "ts": 50, "args": of_device},
    ]
    (tmp_path / "source.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": source}))
    capture = import_trace(tmp_path / "source.json")
    events = load(capture, tmp_path)["traceEvents"]
    found = named(events, "[memory]", "i")
    assert [(each["pid"], each["tid"], each["args"]["bytes"]) for each in found] == [(7, 8, 64), (7, 8, 512)]
    assert named(events, "process_name", "M") == []  # of a device, as the source names none
    again = import_trace(tmp_path / "trace.json").columns["activities"]
    for name in ("device", "stream", "bytes", "event"):
        assert again[name].tolist() == capture.columns["activities"][name].tolist()


def test_flows_lead_to_kernels_and_backward_passes(events: list[dict[str, Any]]) -> None:
    def ends(name: str, phase: str) -> list[tuple[int, int, float]]:
        return [(event["id"], event["tid"], event["ts"]) for event in named(events, name, phase)]

    assert ends("ac2g", "s") == [(101, 41, 1.5), (103, 41, 3.0)]
    assert ends("ac2g", "f") == [(103, 7, 3.5), (101, 7, 4.0), (101, 7, 6.0)]
    assert ends("fwdbwd", "s") == [(1, 41, 1.0)]
    assert ends("fwdbwd", "f") == [(1, 43, 6.0)]
    assert all(event["bp"] == "e" for event in events if event["ph"] == "f")


def test_the_head_says_what_readers_ask_for(tmp_path: Path) -> None:
    trace = load(device_capture(), tmp_path)
    assert trace["distributedInfo"] == {"rank": 0, "world_size": 1}
    assert (trace["deviceProperties"], trace["baseTimeNanoseconds"]) == ([], 5_000_010_000)
    assert len(trace["trace_id"]) == 32
    assert trace["losses"] == [{"kind": "ring_full", "pid": 41, "tid": 43, "count": 3, "place": ""}]


def test_what_an_imported_trace_or_the_user_said_is_kept(tmp_path: Path) -> None:
    capture = device_capture()
    capture.meta["trace"] = {
        "deviceProperties": [{"id": 0}],
        "record_shapes": 1,
        "traceEvents": 5,
        "pillion": {"old": 1},
    }
    capture.meta["trace_metadata"] = {"distributedInfo": {"rank": 3}, 'a "quoted" key': 'a "value"'}
    trace = load(capture, tmp_path)
    assert (trace["deviceProperties"], trace["record_shapes"]) == ([{"id": 0}], 1)
    assert (trace["distributedInfo"], trace['a "quoted" key']) == ({"rank": 3}, 'a "value"')
    assert isinstance(trace["traceEvents"], list)
    assert "old" not in trace["pillion"]


def test_an_export_imports_as_it_was(tmp_path: Path) -> None:
    capture = device_capture()
    capture.export_chrome_trace(tmp_path / "trace.json")
    again = import_trace(tmp_path / "trace.json")
    for table, keys in (
        ("events", "start_ns end_ns tid end_tid"),
        ("activities", "start_ns end_ns correlation stream"),
    ):
        assert described(again, table, keys.split()) == described(capture, table, keys.split())
    again.export_chrome_trace(tmp_path / "again.json")
    ours, theirs = (json.loads((tmp_path / name).read_bytes()) for name in ("trace.json", "again.json"))
    for event in (*named(ours["traceEvents"], "aten::mm"), *named(ours["traceEvents"], "gemm<float>")):
        assert event in theirs["traceEvents"]
    assert ours["trace_id"] == theirs["trace_id"]


def described(capture: Capture, table: str, keys: list[str]) -> list[tuple[Any, ...]]:
    """Names, times since the start, and the other columns of what is neither a sample nor a wait."""
    rows, origin = capture.columns[table], capture.meta["start_ns"]
    kinds = rows["kind" if table == "activities" else "category"]
    columns = [(rows[key] - origin if key.endswith("_ns") else rows[key]).tolist() for key in keys]
    names = [capture.columns["strings"]["text"][name] for name in rows["name"].tolist()]
    kept = [row for row in range(len(names)) if kinds[row] not in ("sample", "wait")]
    return sorted((names[row], kinds[row], *(column[row] for column in columns)) for row in kept)


@pytest.mark.parametrize(
    ("name", "device_flows", "backward_flows"),
    [("amd_mi250_rocm62.json", 16, 4), ("alexnet_a100.json", 139, 0), ("resnet50_2021.pt.trace.json", 9_282, 0)],
)
def test_flows_are_those_that_kineto_drew(name: str, device_flows: int, backward_flows: int, tmp_path: Path) -> None:
    path = real_profile(f"kineto/{name}.gz")
    import_trace(path).export_chrome_trace(tmp_path / "trace.json")
    theirs, ours = (
        arrows(text) for text in (gzip.decompress(path.read_bytes()), (tmp_path / "trace.json").read_bytes())
    )
    assert ours == theirs
    assert Counter(kind for kind, *_ in ours) == +Counter(device=device_flows, backward=backward_flows)


def arrows(text: bytes) -> list[tuple[Any, ...]]:
    """(kind, start, end in µs of the wall clock) of flows between slices; Kineto also draws some that lead nowhere."""
    trace = json.loads(text, parse_float=Decimal)
    base_us = Decimal(trace.get("baseTimeNanoseconds", 0)) / 1000
    begins = {(event["cat"], event["id"]): event for event in trace["traceEvents"] if event["ph"] == "s"}
    found = []
    for event in trace["traceEvents"]:
        begin = begins.get((event.get("cat"), event.get("id")))
        is_backward = event.get("cat") == "fwdbwd"
        if event["ph"] == "f" and begin and (is_backward or begin["pid"] != event["pid"]):
            found.append(("backward" if is_backward else "device", base_us + begin["ts"], base_us + event["ts"]))
    return sorted(found)


def test_processes_that_count_correlations_alike_share_no_flow(tmp_path: Path) -> None:
    capture = device_capture()
    capture.columns["events"]["pid"][3] = 42  # the call that started the copy
    capture.columns["activities"]["correlation"][0] = 101
    events = load(capture, tmp_path)["traceEvents"]
    assert [event["id"] for event in named(events, "ac2g", "s")] == [101, 101 + 2**32]


def test_times_before_the_start_are_negative(tmp_path: Path) -> None:
    capture = device_capture()
    capture.columns["events"]["start_ns"][0] = 8_999
    (step,) = named(load(capture, tmp_path)["traceEvents"], "ProfilerStep#3")
    assert (step["ts"], step["dur"]) == (-1.001, 11.001)


@settings(deadline=None)
@given(st.text() | (st.floats() | st.text() | st.lists(st.floats(), max_size=2)).map(json.dumps))
def test_what_should_be_json_is_json_whatever_it_is(text: str) -> None:
    json.loads(value(text), parse_constant=pytest.fail)
    json.loads(b"{" + members(text)[1:] + b"}", parse_constant=pytest.fail)


@settings(deadline=None)
@given(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.text(), max_size=2), max_size=3))
def test_attributes_come_back(attributes: dict[str, Any]) -> None:
    assert json.loads(b"{" + members(json.dumps(attributes))[1:] + b"}") == attributes


def test_meta_that_json_cannot_hold_is_refused(tmp_path: Path) -> None:
    capture = device_capture()
    capture.meta["rate_hz"] = float("nan")
    with pytest.raises(CaptureError, match="meta"):
        capture.export_chrome_trace(tmp_path / "trace.json")
    assert not list(tmp_path.iterdir())


def test_long_names_are_written_a_few_rows_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pillion.export._rows._CHUNK_BYTES", 100)
    capture = device_capture()
    capture.columns["strings"]["text"][1] = "x" * 1_000
    assert len(named(load(capture, tmp_path)["traceEvents"], "x" * 1_000)) > 0


@pytest.mark.skipif(importlib.util.find_spec("hta") is None, reason="needs HolisticTraceAnalysis")
def test_holistic_trace_analysis_reads_it(tmp_path: Path) -> None:
    device_capture().export_chrome_trace(tmp_path / "trace.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is older than its libraries
        from hta.common.trace import Trace

        logging.getLogger("hta").setLevel(logging.ERROR)
        trace = Trace({0: "trace.json"}, str(tmp_path))
        trace.parse_traces(use_multiprocessing=False)
    events, names = trace.get_trace(0), trace.symbol_table.sym_table
    on_stream = events[events["stream"] == 7]
    # It finds the launch of each through their correlation.
    launches = events.loc[on_stream["index_correlation"], "name"]
    assert [(names[work], names[launch]) for work, launch in zip(on_stream["name"], launches)] == [
        ("Memcpy HtoD", "cudaMemcpyAsync"),
        ("gemm<float>", "cudaLaunchKernel"),
        ("gemm<float>", "cudaLaunchKernel"),
    ]
    assert set(events["iteration"]) == {3}
    shapes = events[events["name"] == names.index("aten::mm")]["input_dims"].tolist()
    assert shapes in ([[[2, 3], [3, 5]]], ["[[2, 3], [3, 5]]"])
