"""Forks, execs, kills, many threads, and limits that a job may live under."""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pillion._native import lib
from pillion_probes import CONSTANTS


def _collected(collect: Callable[..., Any], region_fd: int) -> Any:
    collector = collect(region_fd)
    collector.begin()
    collector.end()
    return collector


def test_a_fork_has_a_region_of_its_own(jobs: Any, collect: Callable[..., Any]) -> None:
    code = """
import os
with _Range("parent, before"):
    if os.fork() == 0:
        with _Range("child"):
            pass
        os._exit(0)
os.wait()
with _Range("parent, after"):
    pass
"""
    job = jobs.python(code)
    parent_pid, parent_fd = jobs.region()
    child_pid, child_fd = jobs.region()
    assert job.wait() == 0
    assert parent_pid == job.pid != child_pid
    parent, child = _collected(collect, parent_fd), _collected(collect, child_fd)
    assert [parent.spool.text(record["name"]) for record in parent.spool.records()] == [
        "parent, before",
        "parent, after",
    ]
    (record,) = child.spool.records()
    assert child.spool.text(record["name"]) == "child"
    assert (record["tid"], record["parent"], record["depth"]) == (child_pid, 0, 0)


def test_the_forks_of_a_process_that_records_itself_do_not(alone: Callable[..., Any]) -> None:
    code = """
spool_fd = os.memfd_create("spool")
sink, losses = ffi.new("struct pln_sink *"), ffi.new("struct pln_loss[8]")
def session():
    assert lib.pln_self_start(spool_fd) == 0
    with _Range("step"):
        pass
    lib.pln_self_stop(sink, losses, 8)
    return sink.records
lib.pln_self_start(spool_fd)
if (pid := os.fork()) == 0:
    idle = not lib.pln_active()
    not_ours = lib.pln_self_stop(sink, losses, 8) < 0
    os._exit(42 if idle and not_ours and session() == 2 else 1)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
lib.pln_self_stop(sink, losses, 8)
print((status, session()))
"""
    assert alone(code) == (42, 2)


def test_an_exec_leaves_no_descriptor_behind(jobs: Any) -> None:
    code = """
import os
with _Range("before"):
    pass
os.execv("/bin/ls", ["ls", "-l", "/proc/self/fd"])
"""
    job = jobs.python(code)
    jobs.region()
    assert b"pillion" not in job.communicate()[0]


def test_what_a_killed_job_recorded_can_be_read(jobs: Any, collect: Callable[..., Any]) -> None:
    code = """
import sys
for _ in range(1009):
    with _Range("done"):
        pass
still_open = _Range("open").__enter__()
print(flush=True)
while True:
    with _Range("more"):
        pass
"""
    job = jobs.python(code)
    _, region_fd = jobs.region()
    job.stdout.readline()
    job.send_signal(signal.SIGKILL)
    job.wait()
    collector = _collected(collect, region_fd)
    assert len(collector.spool.named("done")) == 1009
    (still_open,) = collector.spool.named("open")
    assert still_open["flags"] == CONSTANTS["PLN_UNFINISHED"]
    assert all(record["start_ns"] <= record["end_ns"] for record in collector.spool.records())


def test_thousands_of_threads_at_once(
    jobs: Any, collect: Callable[..., Any], compile_c: Callable[..., Path], link: list[str]
) -> None:
    job = jobs.start(compile_c(Path(__file__).with_name("many_threads.c"), *link), "2003", "2003")
    _, region_fd = jobs.region()
    assert job.wait() == 0
    collector = _collected(collect, region_fd)
    assert len(collector.rings()) == 2003
    assert len(set(collector.spool.records()["tid"])) == len(collector.spool.records()) == 2003
    assert collector.losses() == {}


def test_threads_one_after_another_share_a_ring(
    jobs: Any, collect: Callable[..., Any], compile_c: Callable[..., Path], link: list[str]
) -> None:
    job = jobs.start(compile_c(Path(__file__).with_name("many_threads.c"), *link), "2003", "1")
    _, region_fd = jobs.region()
    assert job.wait() == 0
    collector = _collected(collect, region_fd)
    assert len(collector.rings()) == 1
    assert len(collector.spool.records()) == 2003
    assert len(set(collector.spool.records()["seq"])) == 2003


def test_the_ring_lies_at_the_tls_offset(compile_c: Callable[..., Path], link: list[str], jobs: Any) -> None:
    job = jobs.start(compile_c(Path(__file__).with_name("thread_pointer.c"), *link))
    assert job.communicate()[0] == b"from C\n"
    assert job.returncode == 0


def test_a_file_size_limit_makes_recording_unavailable_and_kills_nobody(alone: Callable[..., Any]) -> None:
    code = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
with _Range("step"):
    pass
print((lib.pln_setup(), lib.pln_setup(), lib.pln_active(), lib.pln_region_fd()))
"""
    assert alone(code) == (-errno.EFBIG, -errno.EFBIG, 0, -1)


def test_no_descriptor_makes_recording_unavailable(alone: Callable[..., Any]) -> None:
    code = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
with _Range("step"):
    pass
print((lib.pln_setup(), lib.pln_active()))
"""
    assert alone(code) == (-errno.EMFILE, 0)


def test_a_job_that_closes_every_descriptor_keeps_its_own_files(alone: Callable[..., Any]) -> None:
    code = """
import tempfile, threading
spool_fd = os.memfd_create("spool")
assert lib.pln_self_start(spool_fd) == 0
with _Range("has its ring"):
    pass
region_fd = lib.pln_region_fd()
with tempfile.TemporaryFile() as own:
    os.dup2(own.fileno(), region_fd)
    with _Range("still recorded"):
        pass
    thread = threading.Thread(target=lambda: _Range("needs a ring").__enter__())
    thread.start()
    thread.join()
    size = os.fstat(own.fileno()).st_size
sink, losses = ffi.new("struct pln_sink *"), ffi.new("struct pln_loss[8]")
count = lib.pln_self_stop(sink, losses, 8)
print((size, sink.records, [(losses[i].kind, losses[i].count) for i in range(count)]))
"""
    thread_record = 1
    assert alone(code) == (0, 2 + thread_record, [(lib.PLN_LOSS_THREADS, 1)])


def test_importing_makes_no_region(alone: Callable[..., Any]) -> None:
    assert alone("print((lib.pln_region_fd(), [fd for fd in os.listdir('/proc/self/fd') if int(fd) > 3]))") == (-1, [])


def test_errno_survives_the_first_range(alone: Callable[..., Any]) -> None:
    code = """
ffi.errno = 42
with_token = ffi.new("struct pln_token *")
lib.pln_begin(with_token, 0, 0, 0)
print(ffi.errno)
"""
    assert alone(code, PILLION_RECORD="1") == 42


def test_recording_oneself_waits_out_a_moment_in_which_another_has_the_region(alone: Callable[..., Any]) -> None:
    """As an agent has it that declines it."""
    code = """
import threading
assert lib.pln_setup() == 0
results = set()
for _ in range(53):
    reader = lib.pln_reader_open(lib.pln_region_fd(), os.getpid(), 1, ffi.new("int *"))
    assert lib.pln_reader_begin(reader, lib.PLN_CONSUMER_AGENT) == 0
    moment = threading.Thread(target=lib.pln_reader_end, args=(reader, ffi.NULL, 0))
    spool_fd = os.memfd_create("spool")
    moment.start()
    results.add(lib.pln_self_start(spool_fd))
    moment.join()
    lib.pln_self_stop(ffi.new("struct pln_sink *"), ffi.NULL, 0)
    lib.pln_reader_close(reader)
    os.close(spool_fd)
print(results)
"""
    assert alone(code) == {0}
