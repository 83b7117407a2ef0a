"""The stand-ins of tests/fake_gpu: what a job did and what a client of CUPTI is told about it agree exactly."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

TIMEOUT_S = 60
MEMCPY, MEMSET, DRIVER, RUNTIME, DEVICE, CONTEXT, KERNEL, NAME = 1, 2, 4, 5, 8, 9, 10, 11
OVERHEAD, PEER_COPY, UNIFIED_MEMORY, CUDA_EVENT, STREAM = 17, 22, 25, 36, 37
SYNCHRONIZATION, EXTERNAL_CORRELATION, MEMORY, GRAPH_TRACE = 38, 39, 49, 51

# Offsets in records, from docs of CUPTI: not from records.h, which is to be tested.
NAME_END = struct.Struct("<QQ")
API = struct.Struct("<IIQQIIIi")  # kind, cbid, start, end, pid, tid, correlation, result
CALLS = {RUNTIME: {"cudaLaunchKernel": 211, "cudaMemcpyAsync": 41, "cudaGraphLaunch": 311, "cudaMalloc": 20,
                   "cudaStreamSynchronize": 131, "cudaDeviceSynchronize": 165, "cudaMemsetAsync": 51,
                   "cudaMemcpyPeerAsync": 161, "cudaEventRecord": 135, "cudaFree": 22},
         DRIVER: {"cuLaunchKernel": 307}}  # fmt: skip
WORK = ("launches=1009", "driver=101", "copies=211", "peers=13", "sets=17", "allocations=19", "events=23", "syncs=29",
        "graphs=7", "streams=4", "threads=3")  # fmt: skip
ALL_KINDS = (MEMCPY, MEMSET, DRIVER, RUNTIME, DEVICE, CONTEXT, KERNEL, NAME, OVERHEAD, PEER_COPY, UNIFIED_MEMORY,
             CUDA_EVENT, STREAM, SYNCHRONIZATION, EXTERNAL_CORRELATION, MEMORY)  # fmt: skip
GRAPH_NODES = 5


@dataclass
class Record:
    data: bytes
    name: bytes

    def __getattr__(self, field: str) -> int:
        """u32_44 is the u32 at offset 44."""
        kind, _, offset = field.partition("_")
        formats = {"u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q"}
        if kind not in formats:
            raise AttributeError(field)
        return int(struct.unpack_from(formats[kind], self.data, int(offset))[0])

    @property
    def kind(self) -> int:
        return self.u32_0

    @property
    def duration_ns(self) -> int:
        return self.u64_24 - self.u64_16


@dataclass
class Run:
    truth: dict[str, Any]
    client: dict[str, Any]
    records: list[Record]

    def of(self, *kinds: int) -> list[Record]:
        return [record for record in self.records if record.kind in kinds]


def read_records(path: Path) -> list[Record]:
    data, records, at = path.read_bytes(), [], 0
    while at < len(data):
        length, name_length = NAME_END.unpack_from(data, at)
        at += NAME_END.size
        records.append(Record(data[at : at + length], data[at + length : at + length + name_length]))
        at += length + name_length
    return records


@pytest.fixture(scope="session")
def observe(fake_gpu: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """``observe(*job_words, kinds=(…), cuda="12.6", **environment)`` runs gpu_job with the client injected."""

    def run(*words: str, kinds: tuple[int, ...] = ALL_KINDS, cuda: str = "12.6", **environment: str) -> Run:
        gpu = fake_gpu(cuda)
        client = gpu.directory / "libclient.so"
        if not client.exists():
            libraries = [f"-L{gpu.directory}", "-lcupti"]
            flags = ["-std=gnu2x", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-shared", "-fPIC"]
            subprocess.run(["gcc", *flags, "-o", client, gpu.sources / "client.c", *libraries], check=True)
        out = tmp_path_factory.mktemp("observed") / "out"
        variables = gpu.environment(
            CUDA_INJECTION64_PATH=str(client),
            CLIENT_OUT=str(out),
            CLIENT_KINDS=",".join(map(str, kinds)),
            **environment,
        )
        job = gpu.compile(gpu.sources / "gpu_job.c")
        done = subprocess.run(
            [job, *words], env={**os.environ, **variables}, check=True, stdout=subprocess.PIPE, timeout=TIMEOUT_S
        )
        truth = json.loads(done.stdout.splitlines()[-1])
        return Run(truth, json.loads(Path(f"{out}.json").read_text()), read_records(Path(f"{out}.records")))

    return run


@pytest.fixture(scope="session")
def run(observe: Callable[..., Run]) -> Run:
    """All kinds of work, all kinds of records."""
    return observe(*WORK, CLIENT_CLOCK="1", CLIENT_CALLBACKS="1", CLIENT_EXTERNAL="4099")


def test_kernels_are_recorded_with_their_names_and_exact_durations(run: Run) -> None:
    seen: dict[str, dict[str, int]] = {}
    for record in run.of(KERNEL):
        kernel = seen.setdefault(record.name.decode(), {"count": 0, "ns": 0})
        kernel["count"] += 1
        kernel["ns"] += record.duration_ns
    assert seen == run.truth["kernels"]


def test_copies_and_memsets_are_recorded_with_their_bytes(run: Run) -> None:
    kinds = {(MEMCPY, 1): "HtoD", (MEMCPY, 2): "DtoH", (PEER_COPY, 10): "PtoP"}
    seen: dict[str, dict[str, int]] = {}
    for record in run.of(MEMCPY, PEER_COPY, MEMSET):
        name = "memset" if record.kind == MEMSET else kinds[record.kind, record.u8_4]
        copy = seen.setdefault(name, {"count": 0, "bytes": 0, "ns": 0})
        copy["count"] += 1
        copy["bytes"] += record.u64_8
        copy["ns"] += record.duration_ns
    assert seen == run.truth["copies"]
    assert {(record.u32_44, record.u32_52) for record in run.of(PEER_COPY)} == {(0, 1)}  # from and to device


def test_calls_are_recorded_by_their_callback_ids(run: Run) -> None:
    for kind, names in CALLS.items():
        counts = Counter(record.u32_4 for record in run.of(kind))
        # Setting up allocates twice, and a runtime launch is a driver launch too.
        more = {"cudaMalloc": 2, "cuLaunchKernel": run.truth["calls"]["cudaLaunchKernel"]}
        for name, cbid in names.items():
            assert counts[cbid] == run.truth["calls"][name] + more.get(name, 0), name


def test_a_driver_call_inside_a_runtime_call_has_its_correlation_id(run: Run) -> None:
    runtime = {record.u32_32: record for record in run.of(RUNTIME)}
    assert len(runtime) == len(run.of(RUNTIME))
    launches = [record for record in run.of(DRIVER) if record.u32_4 == 307]
    inside = [record for record in launches if record.u32_32 in runtime]
    assert (len(inside), len(launches)) == (1009, 1009 + 101)
    for record in inside:
        outer = runtime[record.u32_32]
        assert outer.u64_8 <= record.u64_8 <= record.u64_16 <= outer.u64_16


def test_work_is_joined_to_its_call_and_begins_after_it(run: Run) -> None:
    calls = {record.u32_32: record for record in run.of(DRIVER) + run.of(RUNTIME)}
    at = {KERNEL: 92, MEMCPY: 44, MEMSET: 44, PEER_COPY: 60}
    for record in run.of(*at):
        call = calls[struct.unpack_from("<I", record.data, at[record.kind])[0]]
        assert record.u64_16 >= call.u64_8


def test_work_of_a_stream_does_not_overlap(run: Run) -> None:
    by_stream: dict[int, list[tuple[int, int]]] = {}
    for record in run.of(KERNEL):
        by_stream.setdefault(record.u32_48, []).append((record.u64_16, record.u64_24))
    for record in run.of(MEMCPY, MEMSET, PEER_COPY):
        by_stream.setdefault(record.u32_40, []).append((record.u64_16, record.u64_24))
    assert len(by_stream) == 4
    for spans in by_stream.values():
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_synchronisations_events_memory_and_what_exists_are_recorded(run: Run) -> None:
    calls = run.truth["calls"]
    assert Counter(record.u32_4 for record in run.of(SYNCHRONIZATION)) == {
        1: calls["cudaEventSynchronize"],
        2: calls["cudaStreamWaitEvent"],
        3: calls["cudaStreamSynchronize"],
        4: calls["cudaDeviceSynchronize"],
    }
    assert len(run.of(CUDA_EVENT)) == calls["cudaEventRecord"]
    assert Counter(record.u32_4 for record in run.of(MEMORY)) == {1: calls["cudaMalloc"] + 2, 2: calls["cudaFree"]}
    assert [record.u32_112 for record in run.of(DEVICE)] == [0, 1]
    assert sorted((record.u32_4, record.u32_8) for record in run.of(CONTEXT)) == [(1, 1), (2, 0)]
    assert len(run.of(STREAM)) == 4
    assert [record.u64_8 for record in run.of(UNIFIED_MEMORY)] == [4093]
    assert len(run.of(NAME)) == 1
    assert len(run.of(OVERHEAD)) > 0


def test_kernels_of_a_graph_share_the_correlation_id_of_its_launch(run: Run) -> None:
    launches = {record.u32_32 for record in run.of(RUNTIME) if record.u32_4 == 311}
    nodes = [record for record in run.of(KERNEL) if record.u64_144 != 0]
    assert Counter(record.u32_92 for record in nodes) == dict.fromkeys(launches, GRAPH_NODES)
    assert len({record.u64_144 for record in nodes}) == GRAPH_NODES
    assert len({record.u32_156 for record in nodes}) == 1


def test_graph_trace_replaces_the_kernels_of_graphs(observe: Callable[..., Run]) -> None:
    run = observe("launches=101", "graphs=7", kinds=(KERNEL, GRAPH_TRACE))
    assert len(run.of(KERNEL)) == 101
    assert len(run.of(GRAPH_TRACE)) == 7
    assert {record.duration_ns for record in run.of(KERNEL)}.isdisjoint({0})
    assert {record.u64_16 - record.u64_8 for record in run.of(GRAPH_TRACE)} == {101 + 201 + 301 + 401 + 501}


def test_external_ids_are_recorded_for_the_calls_of_their_thread(run: Run) -> None:
    external = run.of(EXTERNAL_CORRELATION)
    assert {(record.u32_4, record.u64_8) for record in external} == {(3, 4099)}
    main_thread = {record.u32_28 for record in run.of(RUNTIME) if record.u32_4 == 286}  # cudaGraphCreate
    (tid,) = main_thread
    outermost = {record.u32_32 for record in run.of(RUNTIME, DRIVER) if record.u32_28 == tid}
    assert {record.u32_16 for record in external} == outermost
    assert len(external) == len(outermost)


def test_callbacks_come_in_pairs_that_share_their_word(run: Run) -> None:
    assert run.client["enters"] == run.client["exits"] >= len(run.of(DRIVER)) + len(run.of(RUNTIME))
    assert run.client["unpaired"] == 0
    assert (run.client["contexts"], run.client["streams"]) == (2, 4)


def test_job_that_calls_cuda_late_is_recorded_like_another(observe: Callable[..., Run]) -> None:
    run = observe("late", "launches=101", kinds=(KERNEL, CONTEXT))
    assert (len(run.of(KERNEL)), len(run.of(CONTEXT))) == (101, 2)


def test_records_follow_the_clock_of_the_client_or_real_time(observe: Callable[..., Run], run: Run) -> None:
    def is_monotonic(run: Run) -> bool:
        times = [record.u64_16 for record in run.of(KERNEL)] + [record.u64_8 for record in run.of(RUNTIME)]
        return max(times) < 2**60  # CLOCK_REALTIME passed it in 2006

    assert run.client["clock"] == 1
    assert is_monotonic(run)
    assert not is_monotonic(observe("launches=101", kinds=(KERNEL, RUNTIME)))


def test_clock_is_refused_once_a_kind_is_enabled_and_where_it_is_switched_off(observe: Callable[..., Run]) -> None:
    assert observe("launches=1", kinds=(KERNEL,), CLIENT_CLOCK="1").client["late_clock"] == 0
    assert observe("launches=1", kinds=(KERNEL,), CLIENT_CLOCK="1", FAKE_CUPTI="no_clock").client["clock"] == 0


@pytest.mark.parametrize("buffer_bytes", [208, 415, 4099, 1 << 20])
def test_every_buffer_comes_back_with_every_record(observe: Callable[..., Run], buffer_bytes: int) -> None:
    run = observe("launches=1009", "threads=3", kinds=(KERNEL,), CLIENT_BUFFER=str(buffer_bytes))
    assert len(run.of(KERNEL)) == 1009
    fitting = max(1, buffer_bytes // 208)
    assert run.client["given"] == run.client["completed"] == -(-1009 // fitting)
    assert run.client["emitted"] == run.client["records"] == 1009
    assert (run.client["dropped"], run.client["outstanding"], run.client["last_status"]) == (0, 0, 12)


def test_records_without_a_buffer_are_counted_once(observe: Callable[..., Run]) -> None:
    run = observe("launches=1009", kinds=(KERNEL,), CLIENT_BUFFER=str(208 * 101), CLIENT_GIVES="3")
    assert len(run.of(KERNEL)) == 303
    assert (run.client["dropped"], run.client["dropped_again"]) == (1009 - 303, 0)
    assert run.client["dropped_ever"] == 1009 - 303


def test_buffer_too_small_for_a_record_comes_back_empty(observe: Callable[..., Run]) -> None:
    run = observe("launches=101", kinds=(KERNEL,), CLIENT_BUFFER="200")
    assert (len(run.records), run.client["dropped"]) == (0, 101)
    assert run.client["given"] == run.client["completed"] == 101


def test_nothing_is_left_after_finalize(run: Run) -> None:
    assert run.client["left"] == [0] * 6
    assert run.client["finalized"] == 1


def test_only_one_client_subscribes(run: Run) -> None:
    assert run.client["second_subscriber"] == 0


def test_oddities_are_every_nth_kernels(observe: Callable[..., Run]) -> None:
    odd = "zero_times:7,negative:11,null_name:13,bad_utf8:17,unknown_kind:101,out_of_order:19"
    run = observe("launches=1009", kinds=(KERNEL,), FAKE_CUPTI_ODDITIES=odd)
    kernels = run.of(KERNEL)
    assert len(kernels) == 1009
    assert sum(record.u64_16 == record.u64_24 == 0 for record in kernels) == 1009 // 7
    assert sum(record.u64_24 < record.u64_16 for record in kernels) == 1009 // 11 - 1009 // 77
    assert sum(record.u64_104 == 0 for record in kernels) == 1009 // 13
    assert sum(b"\xff" in record.name for record in kernels) == 1009 // 17 - 1009 // (13 * 17)
    assert len(run.of(0x4444)) == 1009 // 101
    # Two threads may deliver two buffers at once: the order is that of the launches.
    launched = sorted(kernels, key=lambda record: record.u32_92)
    starts = [record.u64_16 for record in launched if record.u64_16]
    assert sum(later < earlier for earlier, later in pairwise(starts)) == 1009 // 19 - 1009 // (7 * 19)


VERSIONS = {"11.8": 18, "12.0": 18, "12.1": 18, "12.2": 20, "12.3": 21, "12.4": 22, "12.5": 23, "12.6": 24, "12.8": 26,
            "12.9": 28, "13.0": 130001, "13.1": 130101, "13.2": 130202, "13.3": 130301, "13.4": 130401, "13.5": 130500,
            "999999": 999999}  # fmt: skip


KERNEL_BYTES = {"11.8": 200, "12.0": 208, "12.9": 208, "13.0": 216, "13.1": 224, "13.3": 232, "13.4": 248}


def key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@pytest.mark.parametrize(("version", "number"), VERSIONS.items())
def test_every_version_says_its_number_and_strides_its_own_records(
    observe: Callable[..., Run], version: str, number: int
) -> None:
    cuda = {"11": "11.8", "12": "12.6", "13": "13.5", "999999": "13.5"}[version.split(".")[0]]
    run = observe("launches=101", "copies=11", kinds=(KERNEL, MEMCPY), cuda=cuda, FAKE_CUPTI_VERSION=version)
    assert run.client["version"] == number
    known = [size for since, size in KERNEL_BYTES.items() if number == 999999 or key(since) <= key(version)]
    assert {len(record.data) for record in run.of(KERNEL)} == {known[-1]}
    assert (len(run.of(KERNEL)), len(run.of(MEMCPY))) == (101, 11)


@pytest.mark.parametrize("cuda", ["11.8", "12.6", "13.5"])
def test_program_that_links_with_a_version_runs(observe: Callable[..., Run], cuda: str) -> None:
    run = observe(*WORK, cuda=cuda)
    assert len(run.of(KERNEL)) == sum(kernel["count"] for kernel in run.truth["kernels"].values())
