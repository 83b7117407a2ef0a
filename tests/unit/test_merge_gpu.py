"""From what a device did to its launch, its range, its place and its name: exact answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_captures import capture_of, event_names, losses, rows
from spool_writer import SpoolWriter, gpu_spool

from pillion._capture import Capture
from pillion_probes.layout import CONSTANTS


def test_every_activity_knows_its_launch_and_the_range_around_it() -> None:
    capture = capture_of(gpu_spool())
    events, activities = capture.columns["events"], capture.columns["activities"]
    launch = activities["launch"].tolist()
    found = zip(
        rows(capture, "activities", "kind", "name", "start_ns", "stream"),
        event_names(capture, launch),
        events["start_ns"][launch].tolist(),
        events["pid"][launch].tolist(),
        event_names(capture, activities["event"].tolist()),
    )
    gemm = "void gemm<float>(float*)"
    assert list(found) == [
        (("kernel", gemm, 1_350, 7), "cudaLaunchKernel", 1_200, 41, "aten::mm"),
        (("kernel", "relu", 1_600, 13), "cudaLaunchKernel", 1_400, 41, "aten::mm"),
        (("kernel", gemm, 2_300, 7), "cudaLaunchKernel", 2_100, 42, "eval"),
        (("memcpy", "Memcpy HtoD", 2_400, 7), "cudaMemcpyAsync", 1_600, 41, "aten::mm"),
        *(
            (("kernel", "node", start, 7), "cudaGraphLaunch", 6_000, 41, "cudaGraphLaunch")
            for start in (6_200, 6_400, 6_600)
        ),
        (("kernel", "late", 7_200, 7), "cudaLaunchKernel", 7_000, 41, "cudaLaunchKernel"),
    ]
    assert losses(capture) == {}


def test_calls_have_their_category_and_one_numbering() -> None:
    capture = capture_of(gpu_spool())
    assert rows(capture, "events", "name", "category", "scope", "correlation", "value", "args") == [
        ("step", "user_annotation", 7, 0, 0, ""),
        ("aten::mm", "cpu_op", 0, 0, 7, ""),
        ("cudaLaunchKernel", "cuda_runtime", 0, 5, 0, ""),
        ("cuLaunchKernel", "cuda_driver", 0, 5, 0, ""),
        ("cudaLaunchKernel", "cuda_runtime", 0, 6, 0, ""),
        ("cudaMemcpyAsync", "cuda_runtime", 0, 7, 0, "invalid argument"),
        ("cudaGraphLaunch", "cuda_runtime", 0, 8, 0, ""),
        ("cudaLaunchKernel", "cuda_runtime", 0, (1 << 32) + 5, 0, ""),
        ("eval", "user_annotation", 7, 0, 0, ""),
        ("cudaLaunchKernel", "cuda_runtime", 0, (2 << 32) + 5, 0, ""),
    ]
    activities = capture.columns["activities"]
    assert activities["correlation"].tolist() == [5, 6, (2 << 32) + 5, 7, 8, 8, 8, (1 << 32) + 5]
    assert activities["bytes"].tolist() == [0, 0, 0, 4_096, 0, 0, 0, 0]
    assert rows(capture, "activities", "attributes")[0] == ('{"grid": [2, 1, 1], "block": [32, 1, 1]}',)


def test_a_call_of_which_only_the_driver_tells_is_an_event(spool: SpoolWriter) -> None:
    spool.call(1, 41, "cudaLaunchKernel", 100, 200, 5, seq=1)
    spool.activity(1, 5, 101, 199, 5, name="cudaLaunchKernel")  # told by the thread already
    thread = '{"pid": 41, "tid": 43}'
    spool.activity(1, 5, 300, 400, 6, name="cudaMemsetAsync", detail=2, attributes=thread)
    spool.activity(1, 4, 310, 390, 6, value=307, attributes=thread)
    spool.activity(1, 5, 500, 600, 5, epoch=2, value=211, attributes="no JSON")
    spool.activity(1, 2, 450, 460, 6, value=64)
    capture = capture_of(spool)
    assert rows(capture, "events", "name", "category", "tid", "start_ns", "end_ns", "correlation", "args") == [
        ("cudaLaunchKernel", "cuda_runtime", 41, 100, 200, 5, ""),
        ("cudaMemsetAsync", "cuda_runtime", 43, 300, 400, 6, "error 2"),
        ("driver call 307", "cuda_driver", 43, 310, 390, 6, ""),
        ("runtime call 211", "cuda_runtime", 9_999, 500, 600, (1 << 32) + 5, ""),
    ]
    assert rows(capture, "activities", "kind", "name", "bytes", "launch") == [("memset", "Memset", 64, 1)]


@pytest.mark.parametrize(
    ("activity", "fields", "expected"),
    [
        (3, {"name": "k"}, ("kernel", "k", 0)),
        (3, {}, ("kernel", "kernel", 0)),
        (1, {"detail": 8, "value": 13}, ("memcpy", "Memcpy DtoD", 13)),
        (1, {"detail": 77, "value": 13}, ("memcpy", "Memcpy kind 77", 13)),
        (1, {"name": "Memcpy HtoD (Pinned -> Device)"}, ("memcpy", "Memcpy HtoD (Pinned -> Device)", 0)),
        (2, {"value": 17}, ("memset", "Memset", 17)),
        (
            1,
            {"detail": 1, "attributes": '{"src kind":"pinned","dst kind":"device"}'},
            ("memcpy", "Memcpy HtoD (Pinned -> Device)", 0),
        ),
        (2, {"attributes": '{"value":0,"memory kind":"device static"}'}, ("memset", "Memset (Device Static)", 0)),
        (2, {"attributes": "[1]"}, ("memset", "Memset", 0)),
        (22, {"value": 19}, ("memcpy", "Memcpy PtoP", 19)),
        (38, {"detail": 3, "value": 4}, ("sync", "Stream Sync", 0)),
        (17, {"detail": 6 << 16}, ("overhead", "Command Buffer Full", 0)),
        (36, {}, ("event", "CUDA event", 0)),
        (49, {"detail": 1, "value": 23}, ("memory", "[memory]", 23)),
        (49, {"detail": 2, "value": 23}, ("memory", "[memory]", -23)),
        (25, {"detail": 2, "value": 29}, ("unified_memory", "Unified memory DtoH", 29)),
        (25, {"detail": 4, "value": 29}, ("unified_memory", "Page faults of the GPU", 0)),
        (51, {}, ("graph", "CUDA graph", 0)),
    ],
)
def test_kinds_of_work(spool: SpoolWriter, activity: int, fields: dict[str, Any], expected: tuple[Any, ...]) -> None:
    spool.activity(1, activity, 10, 20, **fields)
    capture = capture_of(spool)
    assert rows(capture, "activities", "kind", "name", "bytes") == [expected]
    assert losses(capture) == {}


def test_what_has_no_number_takes_none_away(spool: SpoolWriter) -> None:
    spool.activity(1, 8, 0, 0, device=0, name="H200", epoch=0)
    spool.call(1, 41, "cudaLaunchKernel", 100, 200, 5, seq=1)
    spool.activity(1, 3, 250, 260, 5)
    capture = capture_of(spool)
    assert rows(capture, "activities", "correlation", "launch") == [(5, 0)]


def test_work_without_a_device_has_that_of_its_context(spool: SpoolWriter) -> None:
    none = {"device": 2**16 - 1, "stream": 2**32 - 1}
    spool.activity(1, 9, 0, 0, context=3, device=1)
    spool.activity(1, 38, 10, 20, context=3, **none)
    spool.activity(1, 38, 30, 40, context=4, **none)
    assert rows(capture_of(spool), "activities", "device", "stream") == [(1, -1), (-1, -1)]


def test_a_record_of_an_event_without_a_time_is_where_it_was_asked_for(spool: SpoolWriter) -> None:
    spool.call(1, 41, "cudaEventRecord", 100, 200, 5, seq=1)
    spool.activity(1, 36, 0, 0, 5)
    spool.activity(1, 36, 0, 0, 6)  # nobody knows where
    capture = capture_of(spool)
    assert rows(capture, "activities", "kind", "start_ns", "end_ns") == [("event", 100, 100)]
    assert losses(capture) == {"bad_times": 1}


def test_a_call_has_the_number_that_another_library_gave_it(spool: SpoolWriter) -> None:
    spool.call(1, 41, "cudaLaunchKernel", 100, 200, 5, seq=1)
    spool.call(1, 41, "cudaLaunchKernel", 300, 400, 6, seq=2)
    spool.activity(1, 39, 0, 0, 6, value=31)
    spool.activity(1, 39, 0, 0, 77, value=37)  # of a call that nobody told of
    capture = capture_of(spool)
    assert rows(capture, "events", "external_id") == [(0,), (31,)]
    assert len(capture.columns["activities"]["start_ns"]) == 0


def test_allocations_are_moments_and_no_memory_of_tensors(spool: SpoolWriter) -> None:
    """torch counts what tensors take, the driver what a caching allocator asks it for: one is not the other."""
    spool.call(1, 41, "cudaMalloc", 200, 300, 5, seq=1)
    spool.activity(1, 49, 250, 0, 5, detail=1, value=103)
    capture = capture_of(spool)
    assert rows(capture, "activities", "kind", "start_ns", "end_ns", "bytes", "launch") == [
        ("memory", 250, 250, 103, 0)
    ]
    assert "Mem" not in capture.key_averages().table()
    assert losses(capture) == {}


# ---- devices, notices ----


def test_devices_and_streams_are_listed(spool: SpoolWriter, tmp_path: Path) -> None:
    spool.activity(1, 8, 0, 0, device=0, name="H200", attributes=f'{{"uuid": "GPU-a", "totalGlobalMem": {139 << 30}}}')
    spool.activity(1, 11, 0, 0, device=0, stream=7, detail=5, name="copies")
    spool.activity(1, 11, 0, 0, device=0, stream=8, detail=2, name="a thread")
    capture = capture_of(spool)
    meta = capture.meta
    assert meta["devices"] == [{"id": 0, "name": "H200", "memory_bytes": 139 << 30, "uuid": "GPU-a"}]
    capture.export_chrome_trace(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["deviceProperties"] == [
        {"id": 0, "name": "H200", "totalGlobalMem": 139 << 30, "uuid": "GPU-a"}
    ]
    assert meta["streams"] == [{"pid": 41, "device": 0, "stream": 7, "name": "copies"}]


def test_a_device_has_one_number_whatever_each_process_calls_it(spool: SpoolWriter) -> None:
    """CUDA_VISIBLE_DEVICES gave each of two processes a device of its own, which it calls 0; a third one sees both."""
    for region, seen in ((1, "a"), (2, "b"), (3, "ba")):
        spool.region(region, 40 + region)
        for device, name in enumerate(seen):
            spool.activity(region, 8, 0, 0, device=device, name=name, attributes=f'{{"uuid": "GPU-{name}"}}')
            spool.activity(region, 3, 10 * region + device, 50, device=device, name=name)
    capture = capture_of(spool)
    assert rows(capture, "activities", "name", "device") == [("a", 0), ("b", 2), ("b", 2), ("a", 0)]
    assert [(device["id"], device["name"]) for device in capture.meta["devices"]] == [(0, "a"), (2, "b")]


def test_two_devices_of_a_process_stay_two_whatever_it_says_of_them(spool: SpoolWriter) -> None:
    for device in (0, 1):
        spool.activity(1, 8, 0, 0, device=device, name="fake", attributes='{"uuid": "GPU-0"}')
        spool.activity(1, 3, 10 + device, 20, device=device)
    capture = capture_of(spool)
    assert rows(capture, "activities", "device") == [(0,), (1,)]
    assert [device["id"] for device in capture.meta["devices"]] == [0, 1]


def test_notices_are_in_the_meta_once_each(spool: SpoolWriter) -> None:
    spool.region(2, 42)
    for _ in range(3):
        spool.notice(1, "CUPTI is held by another profiler")
    spool.notice(2, "", "CLOCK", value=40)
    spool.record(1, 41, "of a later version", 10, 10, kind=CONSTANTS["PLN_NOTICE"], scope=99)
    assert capture_of(spool).meta["notices"] == [
        {"pid": 41, "source": "CUDA", "kind": "text", "text": "CUPTI is held by another profiler", "value": 0},
        {"pid": 42, "source": "CUDA", "kind": "clock", "text": "", "value": 40},
    ]


def test_what_of_a_process_is_not_recorded_is_a_notice(spool: SpoolWriter) -> None:
    spool.object("process", pid=43, start_ns=1, cuda_unavailable="no collector")
    spool.object("process", pid=44, start_ns=1, cuda_unavailable=None, collectors_unavailable="bare")
    spool.object("process", pid=45, start_ns=1, cuda_unavailable=7)
    spool.object("process", pid=41, start_ns=1, cuda_unavailable="it knows better")
    spool.notice(1, "no libcupti")
    assert capture_of(spool).meta["notices"] == [
        {"pid": 43, "source": "CUDA", "kind": "text", "text": "no collector", "value": 0},
        {"pid": 44, "source": "environment", "kind": "text", "text": "bare", "value": 0},
        {"pid": 41, "source": "CUDA", "kind": "text", "text": "no libcupti", "value": 0},
    ]


def test_notices_have_a_limit_and_the_rest_is_counted(spool: SpoolWriter) -> None:
    for number in range(1_013):
        spool.notice(1, f"notice {number}")
    capture = capture_of(spool)
    assert (len(capture.meta["notices"]), losses(capture)) == (1_000, {"notices": 13})


def test_a_capture_without_devices_says_nothing_of_them(training: Capture) -> None:
    assert not {"notices", "devices", "streams"} & training.meta.keys()
    assert not {"category", "correlation", "stack"} & training.columns["events"].keys()
