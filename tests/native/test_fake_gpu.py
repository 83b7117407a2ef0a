"""The stand-ins of tests/fake_gpu: what a job did and what a client of CUPTI is told about it agree exactly."""

from __future__ import annotations

import ctypes.util
import json
import os
import struct
import subprocess
import sys
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
SUCCESS, MULTIPLE_SUBSCRIBERS = 0, 39
CUDA_SUCCESS, CUDA_NOT_READY = 0, 600

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


def in_job(gpu: Any, code: str, **environment: str) -> Any:
    """Runs Python code with the stand-ins as cuda, cudart and cupti, in a process; returns its answer."""
    prologue = (
        "import ctypes, json\n"
        "from ctypes import byref, c_void_p, c_uint32, c_uint64, c_size_t, c_char_p\n"
        f"cuda, cudart, cupti = map(ctypes.CDLL, {[str(gpu.libcuda), str(gpu.libcudart), str(gpu.libcupti)]})\n"
        "cuda.fake_gpu_now.restype = c_uint64\n"
        "CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, ctypes.c_int, c_uint32, c_void_p)\n"
        "CLOCK = ctypes.CFUNCTYPE(c_uint64)\n"
        "GIVE = ctypes.CFUNCTYPE(None, ctypes.POINTER(c_void_p), ctypes.POINTER(c_size_t), ctypes.POINTER(c_size_t))\n"
        "TAKE = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_void_p, c_size_t, c_size_t)\n"
        "nothing = CALLBACK(lambda *_: None)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", prologue + code],
        env={**os.environ, **gpu.environment(**environment)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=TIMEOUT_S,
    )
    return json.loads(done.stdout)


SPIN = """
def spin_on(stream, duration_ns):
    function, module, argument = c_void_p(), c_void_p(), c_uint64(duration_ns)
    assert cuda.cuModuleLoadData(byref(module), b"") == 0
    assert cuda.cuModuleGetFunction(byref(function), module, b"spin_for") == 0
    arguments = (c_void_p * 1)(ctypes.addressof(argument))
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None) == 0

assert cudart.cudaSetDevice(0) == 0
"""


# ---- a job without anybody who looks on ----


@pytest.mark.parametrize("cuda", ["11.8", "12.6", "13.5"])
def test_job_of_100003_launches_counts_them_all(fake_gpu: Callable[..., Any], target: Any, cuda: str) -> None:
    gpu = fake_gpu(cuda)
    job = gpu.compile(gpu.sources / "gpu_job.c")
    words = ("launches=100003", "streams=4", "threads=3", "copies=10007", "syncs=101", "graphs=11")
    truth = target(job, *words, wait=True, env=gpu.environment()).answer()
    assert truth["calls"]["cudaLaunchKernel"] == sum(truth["launches"].values()) == 100003
    assert len(truth["launches"]) == 3
    assert sum(kernel["count"] for kernel in truth["kernels"].values()) == 100003 + 11 * GRAPH_NODES
    assert truth["copies"]["HtoD"]["count"] + truth["copies"]["DtoH"]["count"] == 10007


def test_python_job_counts_its_launches_by_thread_and_function(fake_gpu: Callable[..., Any], target: Any) -> None:
    truth = target("../fake_gpu/gpu_job", "--steps=101", "--threads=3", env=fake_gpu().environment()).answer()
    assert truth["functions"] == {"forward": 303, "backward": 102}
    assert sorted(truth["launches"].values()) == [169, 169, 169]
    assert {name: kernel["count"] for name, kernel in truth["kernels"].items()} == {
        "_Z5scalePfi": 303,
        "_Z3addPfS_S_i": 204,
    }


# ---- records ----


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


def test_threads_are_told_by_a_pthread_t_cut_to_32_bits_until_asked_otherwise(fake_gpu: Callable[..., Any]) -> None:
    code = (
        SPIN.replace("assert cudart", "kept = []\nassert cudart")
        + """
import threading
tids = []
@GIVE
def give(buffer, size, most):
    kept.append(ctypes.create_string_buffer(4096))
    buffer[0], size[0], most[0] = ctypes.addressof(kept[-1]), 4096, 0
@TAKE
def take(context, stream, buffer, size, valid):
    tids.extend(c_uint32.from_address(buffer + at + 28).value for at in range(0, valid, 40))
assert cupti.cuptiActivityRegisterCallbacks(give, take) == 0
for kind in 0, 1:
    assert cupti.cuptiSetThreadIdType(kind) == 0
    assert cupti.cuptiActivityEnable(5) == 0
    assert cudart.cudaDeviceSynchronize() == 0
    assert cupti.cuptiActivityDisable(5) == 0
    assert cupti.cuptiActivityFlushAll(1) == 0
print(json.dumps([tids, threading.get_ident() % 2**32, threading.get_native_id()]))
"""
    )
    tids, pthread, tid = in_job(fake_gpu(), code)
    assert tids == [pthread, tid]


def test_job_that_calls_cuda_late_is_recorded_like_another(observe: Callable[..., Run]) -> None:
    run = observe("late", "launches=101", kinds=(KERNEL, CONTEXT))
    assert (len(run.of(KERNEL)), len(run.of(CONTEXT))) == (101, 2)


# ---- the clock ----


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


# ---- virtual time ----


def test_synchronising_waits_for_virtual_time(fake_gpu: Callable[..., Any]) -> None:
    code = (
        SPIN
        + """
begin_ns, event = cuda.fake_gpu_now(), c_void_p()
spin_on(None, 30_000_000)
assert cudart.cudaEventCreate(byref(event)) == cudart.cudaEventRecord(event, None) == 0
before = cudart.cudaEventQuery(event)
assert cudart.cudaStreamQuery(None) == before
assert cudart.cudaDeviceSynchronize() == 0
print(json.dumps([before, cudart.cudaEventQuery(event), cuda.fake_gpu_now() - begin_ns]))
"""
    )
    before, after, passed_ns = in_job(fake_gpu(), code)
    assert (before, after) == (CUDA_NOT_READY, CUDA_SUCCESS)
    assert passed_ns >= 30_000_000


def test_fast_device_makes_nobody_wait(fake_gpu: Callable[..., Any]) -> None:
    hour_ns = 3600 * 10**9
    code = (
        SPIN
        + f"""
event = c_void_p()
spin_on(None, {hour_ns})
assert cudart.cudaEventCreate(byref(event)) == cudart.cudaEventRecord(event, None) == 0
print(json.dumps([cudart.cudaEventQuery(event), cudart.cudaDeviceSynchronize()]))
"""
    )
    assert in_job(fake_gpu(), code, FAKE_GPU_FAST="1") == [CUDA_SUCCESS, CUDA_SUCCESS]


def test_a_stream_waits_for_the_events_that_it_is_told_to(fake_gpu: Callable[..., Any]) -> None:
    code = (
        SPIN
        + """
first, second, begin, middle, end = (c_void_p() for _ in range(5))
assert cudart.cudaStreamCreate(byref(first)) == cudart.cudaStreamCreate(byref(second)) == 0
for event in begin, middle, end:
    assert cudart.cudaEventCreate(byref(event)) == 0
assert cudart.cudaEventRecord(begin, first) == 0
spin_on(first, 3_600_000_000_000)
assert cudart.cudaEventRecord(middle, first) == cudart.cudaStreamWaitEvent(second, middle, 0) == 0
spin_on(second, 1_000_000_000)
assert cudart.cudaEventRecord(end, second) == 0
took_ms = ctypes.c_float()
assert cudart.cudaEventElapsedTime(byref(took_ms), middle, end) == 0
print(json.dumps(took_ms.value))
"""
    )
    assert in_job(fake_gpu(), code, FAKE_GPU_FAST="1") == 1000


def test_what_has_not_ended_has_no_times_in_a_forced_flush(fake_gpu: Callable[..., Any]) -> None:
    code = (
        SPIN
        + """
kept, seen = [], []
@GIVE
def give(buffer, size, most):
    kept.append(ctypes.create_string_buffer(4096))
    buffer[0], size[0], most[0] = ctypes.addressof(kept[-1]), 4096, 0
@TAKE
def take(context, stream, buffer, size, valid):
    seen.extend([c_uint64.from_address(buffer + at + 16).value, c_uint64.from_address(buffer + at + 24).value]
                for at in range(0, valid, 208))
assert cupti.cuptiActivityRegisterCallbacks(give, take) == cupti.cuptiActivityEnable(10) == 0
spin_on(None, 3_600_000_000_000)
assert cupti.cuptiActivityFlushAll(0) == 0
kept_back = len(seen)
assert cupti.cuptiActivityFlushAll(1) == 0
print(json.dumps([kept_back, seen]))
"""
    )
    assert in_job(fake_gpu(), code) == [0, [[0, 0]]]


# ---- buffers ----


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


def test_finalize_ends_what_was_left_enabled(fake_gpu: Callable[..., Any]) -> None:
    code = """
kept, called = [], []
@GIVE
def give(buffer, size, most):
    kept.append(ctypes.create_string_buffer(4096))
    buffer[0], size[0], most[0] = ctypes.addressof(kept[-1]), 4096, 0
take = TAKE(lambda *_: called.append("take"))
callback = CALLBACK(lambda userdata, domain, cbid, data: called.append(c_uint32.from_address(data + 64).value))
subscriber = c_void_p()
assert cudart.cudaSetDevice(0) == 0
cupti.fake_cupti_enabled_kinds.restype = c_uint64

def left():
    return [cupti.fake_cupti_subscribed(), cupti.fake_cupti_attached(), cupti.fake_cupti_enabled_kinds(),
            cupti.fake_cupti_enabled_callbacks(), cupti.fake_cupti_recorded_calls()]

def begin():
    assert cupti.cuptiSubscribe(byref(subscriber), callback, None) == 0
    assert cupti.cuptiEnableCallback(1, subscriber, 2, 165) == 0

begin()
assert cupti.cuptiActivityRegisterCallbacks(give, take) == cupti.cuptiActivityEnable(10) == 0
assert cupti.cuptiActivityEnableRuntimeApi(165, 1) == 0
assert cudart.cudaDeviceSynchronize() == 0
before, called_before = left(), called.copy()
assert cupti.cuptiFinalize() == cudart.cudaDeviceSynchronize() == 0
after, called_after = left(), called.copy()
begin()
assert cudart.cudaDeviceSynchronize() == 0
print(json.dumps([before, after, called_before == called_after, called_before, called[2:],
                  cupti.fake_cupti_outstanding_buffers(), cupti.fake_cupti_abandoned_records()]))
"""
    before, after, was_silent, first_ids, later_ids, outstanding, abandoned = in_job(fake_gpu(), code)
    assert before == [1, 1, 1 << KERNEL, 1, 1]
    assert after == [0] * 5
    assert was_silent
    assert first_ids == later_ids  # correlation ids begin anew
    assert (outstanding, abandoned) == (1, 1)  # one buffer, with one record of a call


# ---- who else is there, and what is not ----


def test_only_one_client_subscribes(run: Run) -> None:
    assert run.client["second_subscriber"] == 0


def test_somebody_else_can_be_said_to_be_subscribed(fake_gpu: Callable[..., Any]) -> None:
    code = "print(cupti.cuptiSubscribe(byref(c_void_p()), nothing, None))"
    assert in_job(fake_gpu(), code) == SUCCESS
    assert in_job(fake_gpu(), code, FAKE_CUPTI="held") == MULTIPLE_SUBSCRIBERS


@pytest.mark.parametrize(("cuda", "error"), [("11.8", 15), ("12.6", 15), ("13.5", 999)])
def test_without_a_driver_subscribing_and_enabling_fail(fake_gpu: Callable[..., Any], cuda: str, error: int) -> None:
    code = "print(json.dumps([cupti.cuptiSubscribe(byref(c_void_p()), nothing, None), cupti.cuptiActivityEnable(10)]))"
    assert in_job(fake_gpu(cuda), code, FAKE_CUPTI="no_driver") == [error, error]


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


# ---- versions ----


@pytest.mark.parametrize(("cuda", "number"), [("11.8", 11080), ("12.6", 12060), ("13.5", 13050)])
def test_runtime_and_driver_say_their_version(fake_gpu: Callable[..., Any], cuda: str, number: int) -> None:
    code = """
runtime, driver = ctypes.c_int(), ctypes.c_int()
assert cudart.cudaRuntimeGetVersion(byref(runtime)) == cudart.cudaDriverGetVersion(byref(driver)) == 0
print(json.dumps([runtime.value, driver.value]))
"""
    assert in_job(fake_gpu(cuda), code) == [number, number]


def test_runtime_without_a_driver_says_so(fake_gpu: Callable[..., Any], tmp_path: Path) -> None:
    if ctypes.util.find_library("cuda"):
        pytest.skip("needs a machine without CUDA's driver")
    library = tmp_path / "libcudart.so"
    library.write_bytes(fake_gpu().libcudart.read_bytes())
    code = f"import ctypes; print(ctypes.CDLL({str(library)!r}).cudaGetDeviceCount(ctypes.byref(ctypes.c_int(7))))"
    assert subprocess.check_output([sys.executable, "-c", code], timeout=TIMEOUT_S) == b"35\n"


VERSIONS = {"11.8": 18, "12.0": 18, "12.1": 18, "12.2": 20, "12.3": 21, "12.4": 22, "12.5": 23, "12.6": 24, "12.8": 26,
            "12.9": 28, "13.0": 130001, "13.1": 130101, "13.2": 130202, "13.3": 130301, "13.4": 130401, "13.5": 130500,
            "999999": 999999}  # fmt: skip
KERNEL_BYTES = {"11.8": 200, "12.0": 208, "12.9": 208, "13.0": 216, "13.1": 224, "13.3": 232, "13.4": 248}


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


def key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@pytest.mark.parametrize("cuda", ["11.8", "12.6", "13.5"])
def test_program_that_links_with_a_version_runs(observe: Callable[..., Run], cuda: str) -> None:
    run = observe(*WORK, cuda=cuda)
    assert len(run.of(KERNEL)) == sum(kernel["count"] for kernel in run.truth["kernels"].values())


def test_callbacks_have_names(fake_gpu: Callable[..., Any]) -> None:
    code = """
cuda_names = []
for domain, cbid in (2, 211), (1, 307), (2, 9999):
    name = c_char_p()
    error = cupti.cuptiGetCallbackName(domain, cbid, byref(name))
    cuda_names.append([error, name.value and name.value.decode()])
print(json.dumps(cuda_names))
"""
    assert in_job(fake_gpu(), code) == [[0, "cudaLaunchKernel_v7000"], [0, "cuLaunchKernel"], [1, None]]


def test_memory_that_was_freed_is_given_again(fake_gpu: Callable[..., Any]) -> None:
    code = (
        SPIN
        + """
address, bytes_there = c_void_p(), []
for size in 4099, 4099, 8209:
    assert cudart.cudaMalloc(byref(address), c_size_t(size)) == 0
    bytes_there.append(address.value)
    there, back = ctypes.create_string_buffer(b"x" * size, size), ctypes.create_string_buffer(size)
    assert cudart.cudaMemcpy(address, there, c_size_t(size), 1) == 0
    assert cudart.cudaMemcpy(back, address, c_size_t(size), 4) == 0
    assert back.raw == there.raw
    assert cudart.cudaFree(address) == 0
assert cudart.cudaFree(address) == 1
print(json.dumps(bytes_there))
"""
    )
    first, second, other = in_job(fake_gpu(), code)
    assert first == second != other
