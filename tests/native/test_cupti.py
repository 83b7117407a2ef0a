"""CUDA's calls and devices' work, against stand-ins that know exactly what was done."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pillion_probes import CONSTANTS, STRUCTS

COPY, SET, DEVICE, CONTEXT, KERNEL, OVERHEAD, PEER_COPY, SYNC, MEMORY = 1, 2, 8, 9, 10, 17, 22, 38, 49
LAUNCH_KERNELS = {"cudaLaunchKernel": 1, "cuLaunchKernel": 1, "cudaGraphLaunch": 5}
LOST_DEVICE = CONSTANTS["PLN_LOSS_DEVICE"]
CLOCK_DEVIATION_NS = np.uint64(100_000)  # of the time stamp counter that ranges read: PLN_LAG_NS
ACTIVITY = np.dtype(STRUCTS["pln_activity"].dtype_spec())
# Those that a library of the same name has, by the one that is built.
VERSIONS = {
    "11.8": ("11.8",),
    "12.6": ("12.0", "12.1", "12.2", "12.3", "12.4", "12.5", "12.6", "12.8", "12.9"),
    "13.5": ("13.0", "13.1", "13.2", "13.3", "13.4", "13.5"),
}
EVERYTHING = (
    *("launches=1009", "driver=101", "copies=103", "peers=7", "sets=11", "allocations=13", "events=17", "syncs=19"),
    *("graphs=5", "asks=23", "streams=4", "threads=3"),
)
ASKS = {"cudaGetDevice", "cudaGetLastError", "cudaSetDevice", "cuCtxGetCurrent", "cuCtxSetCurrent"}
EVERYTHING_TOLD = {
    COPY: 103,
    SET: 11,
    DEVICE: 2,
    CONTEXT: 2,
    KERNEL: 1009 + 101 + 5 * 5,
    PEER_COPY: 7,
    MEMORY: 2 * 13 + 2,  # two are the job's own
}


def check_kernels(recording: Any) -> None:
    """Every kernel belongs to one call, and has the name and the time that it has."""
    kernels = recording.of_kind(KERNEL)
    outer = recording.outermost()
    names = recording.names(outer)
    value = kernels["epoch"].astype(np.uint64) << np.uint64(32) | kernels["correlation"]
    known, counts = np.unique(value, return_counts=True)
    place = np.searchsorted(outer["value"], known)
    assert (outer["value"][place] == known).all(), "a kernel without a call"
    assert [LAUNCH_KERNELS[name] for name in names[place]] == counts.tolist()
    launch = outer[np.searchsorted(outer["value"], value)]
    assert (kernels["start_ns"] + CLOCK_DEVIATION_NS >= launch["start_ns"]).all()
    assert sum(np.isin(names, list(LAUNCH_KERNELS))) == len(known)
    found = recording.names(kernels)
    for name, truth in recording.answer["kernels"].items():
        of_name = kernels[found == name]
        assert len(of_name) == truth["count"]
        assert int((of_name["end_ns"] - of_name["start_ns"]).sum()) == truth["ns"]


def check_calls(recording: Any) -> None:
    """Calls by name; those before the job counts are left out."""
    outer = recording.outermost()
    names, counts = np.unique(recording.names(outer), return_counts=True)
    found = dict(zip(names.tolist(), counts.tolist()))
    answer = recording.answer["calls"]
    expected = {name: count for name, count in answer.items() if count and name not in {"cudaMalloc", *ASKS}}
    assert {name: found.get(name) for name in expected} == expected
    driver_calls = outer[outer["scope"] == CONSTANTS["PLN_CUDA_DRIVER"]]
    assert all(not name.startswith("cuda") for name in recording.names(driver_calls))
    assert not ASKS & set(recording.names(recording.calls).tolist()), "calls that only ask are left out"


def check_copies(recording: Any) -> None:
    copies, sets, peers = (recording.of_kind(kind) for kind in (COPY, SET, PEER_COPY))
    of_kind = {"HtoD": copies[copies["detail"] == 1], "DtoH": copies[copies["detail"] == 2], "PtoP": peers}
    for name, found in {**of_kind, "memset": sets}.items():
        truth = recording.answer["copies"][name]
        duration_ns = int((found["end_ns"] - found["start_ns"]).sum())
        assert (len(found), int(found["value"].sum()), duration_ns) == (truth["count"], truth["bytes"], truth["ns"])


def test_a_hundred_thousand_launches_on_streams_and_threads_are_all_told_exactly(
    record_gpu: Callable[..., Any],
) -> None:
    recording = record_gpu(
        *("launches=100003", "driver=1009", "copies=1013", "peers=101", "sets=103", "syncs=107", "graphs=109"),
        *("asks=113", "streams=4", "threads=3"),
    )
    assert recording.losses == {}
    assert recording.notices == {}
    check_kernels(recording)
    check_calls(recording)
    check_copies(recording)
    outer = recording.outermost()
    is_launch = np.isin(recording.names(outer), ["cudaLaunchKernel", "cuLaunchKernel"])
    tids, counts = np.unique(outer["tid"][is_launch], return_counts=True)
    assert dict(zip(map(str, tids.tolist()), counts.tolist())) == recording.answer["launches"]
    assert len(np.unique(recording.of_kind(KERNEL)["stream"])) == 4


@pytest.mark.parametrize(("built", "version"), [(built, one) for built in VERSIONS for one in VERSIONS[built]])
def test_every_version_of_cuda_tells_all(
    record_gpu: Callable[..., Any], fake_gpu: Callable[..., Any], built: str, version: str
) -> None:
    recording = record_gpu(*EVERYTHING, gpu=fake_gpu(built), FAKE_CUPTI_VERSION=version)
    assert (recording.losses, recording.notices) == ({}, {})
    check_kernels(recording)
    check_calls(recording)
    check_copies(recording)
    kinds, counts = np.unique(recording.activities["activity"], return_counts=True)
    found = dict(zip(kinds.tolist(), counts.tolist()))
    assert {kind: found.get(kind) for kind in EVERYTHING_TOLD} == EVERYTHING_TOLD
    assert (recording.activities["epoch"] == 1).all()


def test_a_version_that_nobody_knows_is_read_as_far_as_it_is_known(record_gpu: Callable[..., Any]) -> None:
    recording = record_gpu("launches=1009", FAKE_CUPTI_VERSION="999999")
    assert recording.losses == {}
    assert [text for text in recording.notices if "999999" in text and "newer" in text]
    check_kernels(recording)


@pytest.mark.parametrize("missing", ["cuptiSubscribe", "cuptiActivityGetNextRecord"])
def test_without_a_function_that_it_needs_nothing_is_recorded_and_the_function_is_named(
    record_gpu: Callable[..., Any], fake_gpu: Callable[..., Any], missing: str
) -> None:
    recording = record_gpu("launches=11", gpu=fake_gpu("12.6", (missing,)))
    assert recording.answer["calls"]["cudaLaunchKernel"] == 11, "the job does not notice"
    assert [text for text in recording.notices if missing in text and "nothing of CUDA is recorded" in text]
    assert (len(recording.calls), len(recording.activities)) == (0, 0)


@pytest.mark.parametrize("end", ["exit", "session"])
def test_without_functions_that_are_of_use_the_rest_is_recorded_and_what_is_missing_is_said(
    record_gpu: Callable[..., Any], fake_gpu: Callable[..., Any], end: str
) -> None:
    missing = (
        *("cuptiActivityGetNumDroppedRecords", "cuptiEnableCallback", "cuptiFinalize", "cuptiGetCallbackName"),
        "cuptiSetThreadIdType",
    )
    recording = record_gpu("launches=1009", gpu=fake_gpu("12.6", missing), end=end)
    assert sorted(name for name in missing for text in recording.notices if name in text) == list(missing)
    check_kernels(recording)


@pytest.mark.parametrize(
    ("switch", "version", "said"),
    [
        ("held", "12.6", "another profiler holds CUPTI"),
        ("no_driver", "12.6", "cuptiSubscribe failed with 15"),
        ("no_driver", "13.5", "cuptiGetVersion failed with 999"),
    ],
)
def test_where_cupti_cannot_be_had_nothing_is_recorded_and_it_is_said_why(
    record_gpu: Callable[..., Any], fake_gpu: Callable[..., Any], switch: str, version: str, said: str
) -> None:
    recording = record_gpu("launches=11", gpu=fake_gpu(version), FAKE_CUPTI=switch)
    assert recording.answer["calls"]["cudaLaunchKernel"] == 11
    assert [text for text in recording.notices if said in text]
    assert (len(recording.calls), len(recording.activities)) == (0, 0)


@pytest.mark.parametrize("missing", [(), ("cuptiGetTimestamp",), ("cuptiActivityRegisterTimestampCallback",)])
def test_a_clock_that_is_not_ours_is_converted_and_by_how_much_it_may_be_wrong_is_said(
    record_gpu: Callable[..., Any], fake_gpu: Callable[..., Any], missing: tuple[str, ...]
) -> None:
    recording = record_gpu("launches=1009", "syncs=11", gpu=fake_gpu("12.6", missing), FAKE_CUPTI="no_clock")
    clocks = [n for n in recording.notices.values() if n["scope"] == CONSTANTS["PLN_NOTICE_CLOCK"]]
    assert clocks
    uncertainty_ns = int(max(notice["value"] for notice in clocks))
    assert uncertainty_ns < 1_000_000
    kernels = recording.of_kind(KERNEL)
    assert len(kernels) == 1009
    truth = sum(kernel["ns"] for kernel in recording.answer["kernels"].values())
    assert abs(int((kernels["end_ns"] - kernels["start_ns"]).sum()) - truth) <= len(kernels)
    outer = recording.outermost()
    launch = outer[np.searchsorted(outer["value"], np.uint64(1 << 32) | kernels["correlation"].astype(np.uint64))]
    assert (kernels["start_ns"] + np.uint64(uncertainty_ns) + CLOCK_DEVIATION_NS >= launch["start_ns"]).all()


def test_kernels_that_got_no_time_and_records_that_nobody_knows_are_counted_and_said(
    record_gpu: Callable[..., Any],
) -> None:
    recording = record_gpu("launches=1009", FAKE_CUPTI_ODDITIES="zero_times:7,unknown_kind:11")
    untimed, unknown = 1009 // 7, 1009 // 11
    assert len(recording.of_kind(KERNEL)) == 1009 - untimed
    assert recording.losses == {LOST_DEVICE: untimed + unknown}
    assert len([text for text in recording.notices if "no time" in text]) == 1
    assert len([text for text in recording.notices if "unknown" in text and str(0x4444) in text]) == 1


def test_odd_names_and_times_upset_nothing(record_gpu: Callable[..., Any]) -> None:
    recording = record_gpu("launches=1009", FAKE_CUPTI_ODDITIES="out_of_order:5,negative:7,null_name:11,bad_utf8:13")
    kernels = recording.of_kind(KERNEL)
    names = recording.names(kernels)
    assert (len(kernels), recording.losses) == (1009, {})
    assert (kernels["start_ns"] <= kernels["end_ns"]).all()
    assert sum(names == "(a kernel without a name)") >= 1009 // 11 - 1009 // (11 * 13)
    assert sum("�" in name for name in names.tolist()) >= 1009 // 13 - 1009 // (11 * 13)


def test_what_finds_no_buffer_is_counted(record_gpu: Callable[..., Any]) -> None:
    recording = record_gpu("launches=100003", "threads=3", "streams=4", PILLION_CUPTI_BUFFERS="1")
    lost = recording.losses.pop(LOST_DEVICE)
    assert recording.losses == {}
    found = len(recording.of_kind(KERNEL)) + lost
    assert 100003 <= found < 103000, "among the losses are some records of other kinds, a few for each small buffer"


def test_a_job_that_is_killed_has_told_what_was_delivered(record_gpu: Callable[..., Any]) -> None:
    recording = record_gpu("launches=100003", end="kill")
    kernels = recording.of_kind(KERNEL)
    assert 50_000 < len(kernels) <= 100_003, "all but what the last buffers held"
    outer = recording.outermost()
    value = np.uint64(1 << 32) | kernels["correlation"].astype(np.uint64)
    assert np.isin(value, outer["value"]).all()


def test_a_session_that_ends_before_the_job_has_everything(record_gpu: Callable[..., Any]) -> None:
    recording = record_gpu(*EVERYTHING, end="session")
    assert (recording.losses, recording.notices) == ({}, {})
    check_kernels(recording)
    check_copies(recording)


LATE = f"""
import ctypes, sys, time
sys.path.insert(0, {str(Path(__file__).parent.parent / "targets")!r})
from cuda_driver import Cupti, Driver
ctypes.CDLL("libcudart.so.12")
assert "libcuda.so.1" not in open("/proc/self/maps").read()
with _Range("the region is made"):
    pass
driver, cupti = Driver(), Cupti()
deadline = time.monotonic() + 60
while not all(cupti.enabled()) and time.monotonic() < deadline:
    time.sleep(0.001)
driver.launch(101)
driver.call("cuCtxSynchronize")
"""


def test_cuda_that_comes_after_the_region_is_found_without_the_variable_if_its_runtime_was_there(
    jobs: Any, collect: Callable[..., Any], fake_gpu: Callable[..., Any]
) -> None:
    """As in a job that has imported torch, and CUDA's libraries with it, before its first range."""
    process = jobs.python(LATE, **fake_gpu().environment(CUDA_INJECTION64_PATH=""))
    _, fd = jobs.region()
    collector = collect(fd)
    collector.begin()
    while process.poll() is None:
        collector.drain()
        time.sleep(0.001)
    collector.end()
    activities = collector.spool.records("PLN_ACTIVITY").view(ACTIVITY)
    assert process.returncode == 0
    assert (int(sum(activities["activity"] == KERNEL)), collector.losses()) == (101, {})
