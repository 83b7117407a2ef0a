"""Both ways to attach to places of a file: as newer kernels have it, and as older ones."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pillion_agent import uprobe
from pillion_agent.uprobe import BPF_TRACE_UPROBE_MULTI, Place, attach_each, attach_together
from pillion_agent.usdt import read_probes

PROGRAM = """
#include <uapi/linux/ptrace.h>
BPF_HASH(hits, u64, u64);
int on_hit(struct pt_regs *ctx) {
    hits.increment(((u64 (*)(void *))BPF_FUNC_get_attach_cookie)(ctx));
    return 0;
}
"""


@pytest.fixture(params=[(attach_together, BPF_TRACE_UPROBE_MULTI), (attach_each, -1)], ids=["together", "each"])
def attach(request: Any, require_bpf: None) -> Iterator[tuple[Callable[..., list[int]], Any]]:
    """How, and a program that counts hits by cookie."""
    from bcc import BPF

    from pillion_agent.programs import PROBES, kernel_release

    how, attach_type = request.param
    if how is attach_together and kernel_release() < (6, 6):
        pytest.skip("needs Linux 6.6")
    os.environ["BCC_KERNEL_SOURCE"] = str(PROBES / "kernel_headers")
    flags = ["-D__BPF__", "-D__TARGET_ARCH_x86_64", "-Wno-macro-redefined"]
    bpf = BPF(text=PROGRAM.encode(), cflags=flags)
    fd = bpf.load_func(b"on_hit", BPF.KPROBE, attach_type=attach_type).fd
    yield (lambda *args: how(fd, *args)), bpf[b"hits"]
    bpf.cleanup()


@pytest.fixture(scope="module")
def library(compile_c: Callable[..., Path]) -> Path:
    return compile_c("usdt_provider.c", "-shared", "-fPIC")


def places(library: Path) -> list[Place]:
    """Of all probes; the cookie is 100 + the place in the file."""
    return [Place(probe.location, probe.semaphore, 100 + n) for n, probe in enumerate(read_probes(library))]


@pytest.mark.parametrize("whose", ["everybody", "this process", "another process"])
def test_each_place_is_hit_as_often_as_it_is_passed(attach: Any, library: Path, whose: str) -> None:
    how, hits = attach
    names = [probe.name for probe in read_probes(library)]
    pid = {"everybody": 0, "this process": os.getpid(), "another process": os.getppid()}[whose]
    loaded = ctypes.CDLL(str(library))
    with library.open("rb") as file:
        links = how(file.fileno(), places(library), pid)
    try:
        assert loaded.provider_traced() == (0 if whose == "another process" else 1)
        for number in range(101):
            loaded.provider_step(number)
        for _ in range(7):
            loaded.provider_twice()
    finally:
        for link in links:
            os.close(link)
    assert loaded.provider_traced() == 0
    loaded.provider_step(1)
    found = {key.value: value.value for key, value in hits.items()}
    expected = {100 + n: {"step": 101, "twice": 7}[name] for n, name in enumerate(names) if name in ("step", "twice")}
    assert found == ({} if whose == "another process" else expected)


def test_a_place_that_is_none_is_refused_and_leaves_nothing(attach: Any, library: Path) -> None:
    how, _ = attach
    loaded = ctypes.CDLL(str(library))
    before = len(os.listdir("/proc/self/fd"))
    with library.open("rb") as file, pytest.raises(OSError, match=r"\[Errno"):
        how(file.fileno(), [*places(library), Place(1 << 40, 0, 1)])
    assert len(os.listdir("/proc/self/fd")) == before
    assert loaded.provider_traced() == 0


def test_the_numbers_of_system_calls_are_those_of_this_machine() -> None:
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.exists():
        pytest.skip("needs the kernel's headers for programs (linux-libc-dev)")
    numbers = dict(line.split()[1:3] for line in header.read_text().splitlines() if line.startswith("#define __NR_"))
    assert int(numbers["__NR_bpf"]) == uprobe._SYS_BPF
    assert int(numbers["__NR_perf_event_open"]) == uprobe._SYS_PERF_EVENT_OPEN
