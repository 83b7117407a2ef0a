"""Nothing is lost silently: what a thread emitted is what was delivered plus what was counted as lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pillion._native import lib
from pillion._range import _Range
from pillion_probes import CONSTANTS

COUNT = 1_000_003
RANGE = CONSTANTS["PLN_RANGE"]
PAGE = 4096


def resident_bytes(fd: int) -> int:
    return os.fstat(fd).st_blocks * 512


def test_default_rings_account_for_a_million_ranges(alone: Callable[..., Any]) -> None:
    code = f"""
spool_fd = os.memfd_create("spool")
assert lib.pln_self_start(spool_fd) == 0
for _ in range({COUNT}):
    with _Range("step"):
        pass
sink, losses = ffi.new("struct pln_sink *"), ffi.new("struct pln_loss[8]")
lost = {{losses[i].kind: losses[i].count for i in range(lib.pln_self_stop(sink, losses, 8))}}
print((sink.records, lost))
"""
    records, lost = alone(code)
    thread_record = 1
    assert set(lost) <= {RANGE}
    assert records - thread_record + lost.get(RANGE, 0) == COUNT


def test_a_ring_that_is_too_small_counts_what_it_loses(jobs: Any, collect: Callable[..., Any]) -> None:
    code = f"""
for _ in range({COUNT}):
    with _Range("step"):
        pass
"""
    job = jobs.python(code, PILLION_RING_RECORDS="64")
    _, region_fd = jobs.region()
    collector = collect(region_fd)
    collector.begin()
    while job.poll() is None:
        collector.drain()
    collector.end()
    delivered = len(collector.spool.records()) + len(collector.spool.records("PLN_THREAD"))
    (ring,) = collector.rings()
    assert ring["head"] + sum(ring["lost"]) == COUNT + 1
    assert delivered + collector.losses()[RANGE] == COUNT + 1
    assert collector.losses()[RANGE] > 0


def test_a_region_that_recorded_from_its_start_is_kept_from_its_start(jobs: Any, collect: Callable[..., Any]) -> None:
    job = jobs.python("for _ in range(101):\n    with _Range('step'):\n        pass")
    _, region_fd = jobs.region()
    assert job.wait() == 0
    collector = collect(region_fd)
    collector.begin()
    collector.end()
    assert len(collector.spool.records()) == 101


@pytest.mark.parametrize("environment", [{"PILLION_RING_RECORDS": "64"}, {}], ids=["full rings", "roomy rings"])
def test_signal_handlers_may_make_ranges(
    jobs: Any, collect: Callable[..., Any], compile_c: Callable[..., Path], link: list[str], environment: dict[str, str]
) -> None:
    program = compile_c(Path(__file__).with_name("signal_storm.c"), *link)
    job = jobs.start(program, "5003", **environment)
    _, region_fd = jobs.region()
    collector = collect(region_fd)
    collector.begin()
    while job.poll() is None:
        collector.drain()
    attempts = int(job.communicate()[0])
    collector.end()
    (ring,) = collector.rings()
    thread_record = 1
    assert ring["head"] + sum(ring["lost"]) == attempts + thread_record
    assert ring["depth"] == 0


def test_sessions_that_come_and_go_report_each_range_once(collect: Callable[..., Any]) -> None:
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            with _Range("outer"), _Range("inner"):
                pass

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    sessions = []
    for _ in range(23):
        collector = collect()
        collector.begin()
        while collector.drain() == 0:
            pass
        collector.end()
        sessions.append(collector)
    done.set()
    for thread in threads:
        thread.join()

    seen: set[int] = set()
    for collector in sessions:
        records = collector.spool.records()
        ids = set((records["tid"].astype("u8") << 32 | records["seq"]).tolist())
        assert len(ids) == len(records)
        assert not ids & seen
        seen |= ids
        for tid in set(records["tid"].tolist()):
            seqs = records["seq"][records["tid"] == tid]
            assert collector.losses() or len(seqs) == seqs.max() - seqs.min() + 1


def test_names_beyond_the_log_are_counted(jobs: Any, collect: Callable[..., Any]) -> None:
    code = """
for i in range(70):  # of one mebibyte each, into 64
    with _Range(f"{i}" + "x" * (1 << 20)):
        pass
"""
    job = jobs.python(code)
    _, region_fd = jobs.region()
    assert job.wait() == 0
    collector = collect(region_fd)
    collector.begin()
    collector.end()
    nameless = [record for record in collector.spool.records() if record["name"] == 0]
    assert len(collector.spool.records()) == 70
    assert len(nameless) == collector.losses()[lib.PLN_LOSS_STRINGS] == 7


def test_pages_that_a_drain_has_emptied_go_back_beyond_what_a_region_may_keep(
    jobs: Any, collect: Callable[..., Any]
) -> None:
    threads, records, kept_bytes = 11, 100_003, 32 << 20
    code = f"""
import sys, threading
all_here = threading.Barrier({threads})
def work():
    for _ in range({records}):
        with _Range("step"):
            pass
    all_here.wait()
while sys.stdin.readline():
    workers = [threading.Thread(target=work) for _ in range({threads})]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print("done", flush=True)
"""
    job = jobs.python("with _Range('first'): pass\n" + code)
    _, region_fd = jobs.region()
    collector = collect(region_fd)
    collector.begin()
    resident = []
    for _ in range(3):
        job.stdin.write(b"go\n")
        job.stdin.flush()
        job.stdout.readline()
        resident.append(resident_bytes(region_fd))
        collector.drain()
        resident.append(resident_bytes(region_fd))
    assert min(resident[::2]) > kept_bytes
    assert max(resident[1::2]) < kept_bytes
    collector.end()
    first = 1
    delivered = len(collector.spool.records())
    assert delivered + collector.losses().get(RANGE, 0) == 3 * threads * records + first


def test_a_process_that_records_itself_has_pages_before_its_threads_come_to_them(alone: Callable[..., Any]) -> None:
    assert alone("""
spool_fd = os.memfd_create("spool")
assert lib.pln_self_start(spool_fd) == 0
def bytes_there():
    return os.fstat(lib.pln_region_fd()).st_blocks * 512
with _Range("first"):
    pass
before, written = bytes_there(), 0
while bytes_there() - before < written * 64 + (1 << 17) and written < 120_000:
    for _ in range(4000):
        with _Range("step"):
            pass
    written += 4000
    while os.fstat(spool_fd).st_size < written * 64: # the drain thread has seen how many there are
        pass
print(written < 120_000)
""")


def test_a_fork_child_makes_pages_for_its_own_records_alone(alone: Callable[..., Any]) -> None:
    assert alone("""
def record(count):
    spool_fd = os.memfd_create("spool")
    assert lib.pln_self_start(spool_fd) == 0
    for _ in range(count):
        with _Range("step"):
            pass
    while os.fstat(spool_fd).st_size < count * 64: # the drain thread has seen how many there are
        pass
    lib.pln_self_stop(ffi.new("struct pln_sink *"), ffi.NULL, 0)
    return os.fstat(lib.pln_region_fd()).st_blocks * 512
record(50_000)
pid = os.fork()
if pid == 0:
    os._exit(0 if record(100) < 1 << 20 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0)
""")
