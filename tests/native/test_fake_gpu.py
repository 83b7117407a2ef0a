"""The stand-ins of tests/fake_gpu as a job meets them: devices, streams, events, memory, versions, subscribers."""

from __future__ import annotations

import ctypes.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TIMEOUT_S = 60
KERNEL = 10
SUCCESS, MULTIPLE_SUBSCRIBERS = 0, 39
CUDA_SUCCESS, CUDA_NOT_READY = 0, 600
GRAPH_NODES = 5


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


def test_somebody_else_can_be_said_to_be_subscribed(fake_gpu: Callable[..., Any]) -> None:
    code = "print(cupti.cuptiSubscribe(byref(c_void_p()), nothing, None))"
    assert in_job(fake_gpu(), code) == SUCCESS
    assert in_job(fake_gpu(), code, FAKE_CUPTI="held") == MULTIPLE_SUBSCRIBERS


@pytest.mark.parametrize(("cuda", "error"), [("11.8", 15), ("12.6", 15), ("13.5", 999)])
def test_without_a_driver_subscribing_and_enabling_fail(fake_gpu: Callable[..., Any], cuda: str, error: int) -> None:
    code = "print(json.dumps([cupti.cuptiSubscribe(byref(c_void_p()), nothing, None), cupti.cuptiActivityEnable(10)]))"
    assert in_job(fake_gpu(cuda), code, FAKE_CUPTI="no_driver") == [error, error]


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
