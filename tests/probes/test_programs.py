"""The eBPF programs themselves: the kernel takes them, they read what it says they read, and they cost what is said."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from pillion_agent.maps import Map
from pillion_agent.programs import SOURCES, Attachments, Programs
from pillion_probes import HEADER_PATH

PROBES = HEADER_PATH.parent


@pytest.fixture(scope="module")
def programs(require_bpf: None) -> Programs:
    return Programs()


def test_every_source_says_its_hook_question_and_cost() -> None:
    for name in SOURCES[1:]:
        head = (PROBES / name).read_text().partition("\n\n")[0]
        assert all(word in head for word in ("Hook", "Question", "Cost"))
    assert {path.name for path in PROBES.glob("*.bpf.c")} == set(SOURCES)


def test_no_kernel_header_of_the_system_is_read() -> None:
    """What bcc includes comes from the project, so no header package has to be installed, and none can be wrong."""
    for path in (PROBES / "kernel_headers").rglob("*.h"):
        for line in path.read_text().splitlines():
            if line.startswith("#include"):
                assert (PROBES / "kernel_headers" / "include" / line.split("<")[1].rstrip(">")).exists(), line


def test_task_offsets_are_those_of_this_kernel(programs: Programs) -> None:
    """A switch of this very thread is recorded under its ids, name and times."""
    from pillion._native import ffi, lib

    pid = os.getpid()
    targets = Map(programs.map_fd("targets"), "uint32_t", "struct pln_target")
    threads = Map(programs.map_fd("threads"), "uint32_t", "struct pln_thread")
    targets.put(pid, ffi.new("struct pln_target *", {"sessions": 1, "start_ns": 1}))
    descriptors = programs.attach_scheduler()
    try:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(reader, 1)
            os._exit(0)
        os.write(writer, b"x")
        os.waitpid(child, 0)  # this thread leaves the CPU
        thread = threads.get(pid)
    finally:
        for descriptor in (*descriptors, reader, writer):
            os.close(descriptor)
        targets.delete(pid)
    assert thread is not None
    assert thread.time.pid == pid
    assert ffi.string(thread.time.comm).decode() == Path("/proc/self/comm").read_text().strip()
    assert thread.time.switches >= 1
    assert thread.time.state in (lib.PLN_THREAD_ON, lib.PLN_THREAD_OFF)
    assert 0 < thread.time.runtime_ns < 3600e9
    assert threads.get(child) is None, "nobody asked for it"


def test_detached_programs_see_nothing(programs: Programs) -> None:
    from pillion._native import ffi

    targets = Map(programs.map_fd("targets"), "uint32_t", "struct pln_target")
    threads = Map(programs.map_fd("threads"), "uint32_t", "struct pln_thread")
    threads.delete(os.getpid())
    targets.put(os.getpid(), ffi.new("struct pln_target *", {"sessions": 1, "start_ns": 1}))
    Attachments(programs).apply([])
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    targets.delete(os.getpid())
    assert threads.get(os.getpid()) is None


def test_a_switch_in_that_the_kernel_hid_is_made_up_for(programs: Programs) -> None:
    """The thread is on the CPU, and its entry says that it left: its CPU time since then comes from the scheduler."""
    from pillion._native import ffi, lib

    tid = threading.get_native_id()
    targets = Map(programs.map_fd("targets"), "uint32_t", "struct pln_target")
    threads = Map(programs.map_fd("threads"), "uint32_t", "struct pln_thread")
    threads.delete(tid)
    targets.put(os.getpid(), ffi.new("struct pln_target *", {"sessions": 1, "start_ns": time.monotonic_ns()}))
    descriptors = programs.attach_scheduler()
    try:
        time.sleep(0.001)  # leaves and comes back: the entry is there, with the scheduler's account at the switch-out
        hidden = threads.get(tid)
        hidden.time.state = lib.PLN_THREAD_OFF
        threads.replace(tid, hidden)
        before_ns, began_ns = hidden.time.on_cpu_ns, time.thread_time_ns()
        while time.thread_time_ns() - began_ns < 30_000_000:
            pass
        burned_ns = time.thread_time_ns() - began_ns
        time.sleep(0.001)
        after = threads.get(tid)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        targets.delete(os.getpid())
    assert after.time.on_cpu_ns - before_ns > 0.9 * burned_ns
