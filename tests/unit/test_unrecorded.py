"""Whether a process's CUDA and torch are recorded, as the agent sees it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from pillion_agent.procfs import Mapping
from pillion_agent.unrecorded import CudaUse, TorchUse

DRIVER = Mapping(0x1000, 0x2000, 0, "r-xp", "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14")
RUNTIME = Mapping(0x3000, 0x4000, 0, "r-xp", "/usr/lib/x86_64-linux-gnu/libcudart.so.12")


@pytest.fixture
def process() -> Iterator[Callable[..., int]]:
    """``process(**environment)`` starts one, and returns its pid."""
    running: list[subprocess.Popen[bytes]] = []

    def start(**environment: str) -> int:
        command = ["/bin/sh", "-c", "echo ready; read line"]
        child = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        running.append(child)
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"
        return child.pid

    yield start
    for each in running:
        each.communicate()


@pytest.fixture
def use(process: Callable[..., int]) -> Callable[..., CudaUse]:
    """``use(*mappings, before=None, **environment)``: of a process that has these."""

    def look(*mappings: Mapping, before: CudaUse | None = None, **environment: str) -> CudaUse:
        found = CudaUse(before)
        found.look(process(**environment), mappings)
        return found

    return look


def test_cuda_without_our_collector_is_said_not_to_be_recorded(use: Callable[..., CudaUse]) -> None:
    assert "pillion run" in (use(RUNTIME, DRIVER).unavailable or "")
    assert use(RUNTIME).unavailable is None, "it has called nothing of CUDA"


def test_cuda_that_is_collected_or_will_be_or_shall_not_be_is_no_news(use: Callable[..., CudaUse]) -> None:
    collected = use(DRIVER)
    collected.is_collected = True
    assert collected.unavailable is None
    assert use(DRIVER, CUDA_INJECTION64_PATH="/opt/pillion/libpillion.so").unavailable is None
    assert use(DRIVER, PILLION_NO_CUDA="1").unavailable is None
    assert use(DRIVER, CUDA_INJECTION64_PATH="/opt/nsys/libToolsInjection64.so").unavailable


def test_a_fork_of_a_process_with_cuda_has_a_driver_that_it_cannot_use(use: Callable[..., CudaUse]) -> None:
    assert use(DRIVER, before=use(DRIVER)).unavailable is None
    assert use(DRIVER, before=use()).unavailable


def test_of_a_process_that_has_ended_nothing_is_said() -> None:
    found = CudaUse()
    found.look(2**22 + 1, [DRIVER])
    assert found.unavailable is None


def test_torch_without_our_start_up_is_said_not_to_be_recorded(process: Callable[..., int]) -> None:
    torch = Mapping(0x1000, 0x2000, 0, "r-xp", "/usr/lib/python3/dist-packages/torch/lib/libtorch_cpu.so")
    ours = Mapping(0x3000, 0x4000, 0, "r-xp", "/usr/lib/python3/dist-packages/pillion/libpillion.so")

    def said(*looks: list[Mapping], is_fork: bool = False, **environment: str) -> str | None:
        found, pid = TorchUse(is_fork), process(**environment)
        for mappings in looks:
            found.look(pid, mappings)
        return found.unavailable

    run = {"PILLION_LIBRARY": ours.path}
    assert "PYTHONPATH" in (said([torch], **run) or "")
    assert said([], **run) is None
    assert said([torch], [torch, ours], **run) is None, "its import had not come to an end"
    assert said([torch], **run, is_fork=True) is None
    assert said([torch], **run, PILLION_NO_OPS="1") is None
    assert said([torch]) is None, "nobody was to record it"
