"""Calls and records as CUPTI tells them, in orders and numbers that no decent job makes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pillion_probes import CONSTANTS

LIBRARY = Path(str(sys.modules["pillion._native"].__file__)).with_name("libpillion.so")
PROLOGUE = f"""
import ctypes, sys
sys.path.insert(0, {str(Path(__file__).parent.parent / "targets")!r})
from cuda_driver import Cupti, Driver, Recording

DRIVER, RUNTIME, ENTER, EXIT = 1, 2, 0, 1
cupti = ctypes.CDLL("libcupti.so.12")

def tell(site, cbid, correlation, name=b"cuMemAlloc_v2", domain=DRIVER):
    cupti.fake_cupti_call_back(site, domain, cbid, correlation, name)

def told(recording):
    return [(recording.text(call["name"]), int(call["value"]) & 0xFFFFFFFF, int(call["depth"]))
            for call in recording.calls]
"""


@pytest.fixture
def with_gpu(alone: Callable[..., Any], fake_gpu: Callable[..., Any]) -> Callable[..., Any]:
    """``with_gpu(code)`` runs code in a process of its own."""
    environment = fake_gpu().environment(CUDA_INJECTION64_PATH=str(LIBRARY))
    return lambda code: alone(PROLOGUE + code, **environment)


def test_calls_within_calls_are_recorded_to_a_depth_of_32_and_those_beyond_are_counted(with_gpu: Any) -> None:
    calls, losses = with_gpu("""
driver = Driver()
with Recording() as recording:
    for _ in range(2):
        for number in range(37):
            tell(ENTER, 243, number)
        for number in reversed(range(37)):
            tell(EXIT, 243, number)
print((told(recording), recording.losses))
""")
    once = [("cuMemAlloc_v2", number, number) for number in reversed(range(32))]
    assert calls == once * 2
    assert losses == {CONSTANTS["PLN_RANGE"]: 2 * 5}


def test_an_end_that_was_not_told_is_that_of_the_call_around_it(with_gpu: Any) -> None:
    assert with_gpu("""
driver = Driver()
with Recording() as recording:
    tell(ENTER, 20, 7, b"cudaMalloc_v3020", RUNTIME)
    tell(ENTER, 243, 7)
    tell(EXIT, 20, 7, b"cudaMalloc_v3020", RUNTIME)
    tell(ENTER, 243, 8)
    tell(EXIT, 243, 8)
ends = recording.calls["end_ns"]
print((told(recording), recording.losses, bool(ends[0] <= ends[1] <= ends[2])))
""") == ([("cuMemAlloc_v2", 7, 1), ("cudaMalloc", 7, 0), ("cuMemAlloc_v2", 8, 0)], {}, True)


def test_ends_alone_are_those_of_calls_in_progress_when_the_session_began(with_gpu: Any) -> None:
    assert with_gpu("""
driver = Driver()
with Recording() as recording:
    tell(ENTER, 243, 7) # made by the runtime call that was in progress
    tell(EXIT, 243, 7)
    tell(EXIT, 20, 7, b"cudaMalloc_v3020", RUNTIME)
    tell(EXIT, 20, 6, b"cudaMalloc_v3020", RUNTIME)
starts = recording.calls["start_ns"]
print((told(recording), recording.losses, bool(starts[2] == starts[1] < starts[0])))
""") == ([("cuMemAlloc_v2", 7, 0), ("cudaMalloc", 7, 0), ("cudaMalloc", 6, 0)], {}, True)


def test_an_end_without_a_beginning_ends_nothing(with_gpu: Any) -> None:
    assert with_gpu("""
driver = Driver()
with Recording() as recording:
    tell(ENTER, 243, 7)
    tell(EXIT, 243, 6)
    tell(EXIT, 245, 7, b"cuMemFree_v2")
    tell(EXIT, 243, 7)
    tell(EXIT, 243, 7)
print((told(recording), recording.losses))
""") == ([("cuMemAlloc_v2", 7, 0)], {})


def test_calls_that_have_the_same_number_are_told_apart_by_their_order(with_gpu: Any) -> None:
    assert with_gpu("""
driver = Driver()
with Recording() as recording:
    for _ in range(3):
        tell(ENTER, 243, 7)
        tell(EXIT, 243, 7)
print((told(recording), recording.losses))
""") == ([("cuMemAlloc_v2", 7, 0)] * 3, {})


def test_functions_that_nobody_knows_have_the_name_that_cupti_gives_them_or_their_number(with_gpu: Any) -> None:
    assert with_gpu("""
driver = Driver()
with Recording() as recording:
    for cbid, name in ((1021, b"cudaNew_v99010_ptsz"), (4099, None), (4099, b"cudaOdd"), (2**31, b"x" * 1_000_003)):
        tell(ENTER, cbid, cbid, name, RUNTIME)
        tell(EXIT, cbid, cbid, name, RUNTIME)
print(([name[:16] for name, _, _ in told(recording)], recording.losses))
""") == (["cudaNew", "runtime call 409", "cudaOdd", "x" * 16], {})


def test_callbacks_on_threads_that_never_called_cuda_and_end_at_once_are_as_good(with_gpu: Any) -> None:
    assert with_gpu("""
import threading
driver = Driver()

def work(number):
    tell(ENTER, 243, number)
    if number % 2:
        tell(EXIT, 243, number)

with Recording() as recording:
    for number in range(1009):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        thread.join()
depths = {depth for _, _, depth in told(recording)}
print((sorted(number for _, number, _ in told(recording)) == list(range(1009)), depths, recording.losses))
""") == (True, {0}, {})


def test_names_and_migrations_of_memory_are_recorded(with_gpu: Any) -> None:
    assert with_gpu("""
driver = Driver()
with Recording() as recording:
    cupti.fake_cupti_emit(13, b"copies")
    for _ in range(7):
        cupti.fake_cupti_emit(17, None)
names = recording.activities[recording.activities["activity"] == 11]
moves = recording.activities[recording.activities["activity"] == 25]
print(([(recording.text(name["name"]), name["device"], name["context"], name["stream"]) for name in names],
       [(move["value"], move["end_ns"] - move["start_ns"], move["stream"]) for move in moves], recording.losses))
""") == ([("copies", 0, 1, 13)], [(4093, 1009, 17)] * 7, {})


def test_every_kernel_of_a_large_graph_belongs_to_its_launch(with_gpu: Any) -> None:
    assert with_gpu("""
import json

class Node(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p), ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3),
                ("shared", ctypes.c_uint32), ("arguments", ctypes.c_void_p), ("extra", ctypes.c_void_p)]

driver = Driver()
graph, ready, node = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
driver.call("cuGraphCreate", ctypes.byref(graph), 0)
one = (ctypes.c_uint32 * 3)(1, 1, 1)
kernel = Node(driver._function, one, one, 0, ctypes.cast(driver._arguments, ctypes.c_void_p), None)
for _ in range(1009):
    driver.call("cuGraphAddKernelNode_v2", ctypes.byref(node), graph, None, ctypes.c_size_t(0), ctypes.byref(kernel))
driver.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_uint64(0))
with Recording() as recording:
    for _ in range(3):
        driver.call("cuGraphLaunch", ready, None)
    driver.call("cuCtxSynchronize")
by_launch = {}
for kernel in recording.kernels:
    attributes = json.loads(recording.text(kernel["attributes"]))
    by_launch.setdefault(int(kernel["correlation"]), set()).add(attributes["graph node id"])
launches = [number for name, number, _ in told(recording) if name == "cuGraphLaunch"]
print((sorted(by_launch) == sorted(launches), [len(nodes) for nodes in by_launch.values()], len(recording.kernels),
       recording.losses))
""") == (True, [1009] * 3, 3 * 1009, {})
