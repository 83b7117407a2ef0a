"""What the driver calls devices, and the job its streams, is on their tracks in every format that has such names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from export_captures import device_capture

from pillion._capture import Capture, open_capture, save_capture
from pillion.export._places import DeviceNames
from pillion.export.perfetto import write_perfetto
from pillion.export.speedscope import write_speedscope

_META = {
    "devices": [{"id": 0, "name": "NVIDIA H200", "memory_bytes": 141 << 30, "numSms": 132}, {"id": 1, "name": ""}],
    "streams": [
        {"pid": 41, "device": 0, "stream": 7, "name": "copies"},
        {"pid": 42, "device": 0, "stream": 7, "name": "compute"},
        {"pid": 43, "device": 0, "stream": 7, "name": "copies"},
        {"pid": 41, "device": 1, "stream": 7, "name": "of another device"},
    ],
}


@pytest.fixture
def capture() -> Capture:
    made = device_capture()
    made.meta |= _META
    return made


def test_in_a_chrome_trace(capture: Capture, tmp_path: Path) -> None:
    capture.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_bytes())
    named = {
        (event["name"], event["pid"], event["tid"]): event["args"]["name"]
        for event in trace["traceEvents"]
        if event["name"] in ("process_name", "thread_name")
    }
    assert named["process_name", 0, 0] == "GPU 0 NVIDIA H200"
    assert named["thread_name", 0, 7] == "stream 7 copies/compute"
    assert named["thread_name", 0, -1] == "stream -1"
    known, unknown = trace["deviceProperties"]
    assert known == {"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 141 << 30, "numSms": 132}
    assert unknown["id"] == 1


def test_in_speedscope(capture: Capture, tmp_path: Path) -> None:
    write_speedscope(capture, tmp_path / "file.json")
    profiles = json.loads((tmp_path / "file.json").read_bytes())["profiles"]
    names = [profile["name"] for profile in profiles]
    assert "GPU 0 NVIDIA H200 stream 7 copies/compute" in names
    assert "GPU 0 NVIDIA H200 stream -1" in names


def test_in_perfetto(capture: Capture, tmp_path: Path) -> None:
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="needs perfetto's protos")
    write_perfetto(capture, tmp_path / "trace.pftrace")
    trace = protos.Trace()
    trace.ParseFromString((tmp_path / "trace.pftrace").read_bytes())
    names = [packet.track_descriptor.name for packet in trace.packet if packet.HasField("track_descriptor")]
    assert {"GPU 0 NVIDIA H200", "stream 7 copies/compute", "stream -1"} <= set(names)


def test_in_a_saved_capture(capture: Capture, tmp_path: Path) -> None:
    save_capture(capture, tmp_path / "saved")
    capture.export(tmp_path / "parquet", "parquet")
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    stored = json.loads(pq.read_schema(tmp_path / "parquet" / "activities.parquet").metadata[b"pillion"])
    for meta in (open_capture(tmp_path / "saved").meta, stored):
        assert {key: meta[key] for key in _META} == _META


def test_without_names_numbers_do() -> None:
    names = DeviceNames({})
    assert (names.device(3), names.stream(3, 14)) == ("GPU 3", "stream 14")


def test_memory_of_the_host_is_on_no_gpu() -> None:
    names = DeviceNames({})
    assert (names.device(-1), names.stream(-1, 41)) == ("host", "thread 41")
