"""The collector's side against other collectors, hostile jobs and full disks."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion._native import ffi, lib
from pillion._range import _Range
from pillion_probes import CONSTANTS, STRUCTS

REGION, RING = STRUCTS["pln_region"], STRUCTS["pln_ring"]
OPEN, RANGE = (np.dtype(STRUCTS[name].dtype_spec()) for name in ("pln_open", "pln_range"))
PAGE = 4096
RING_RECORDS = 64
STRIDE = PAGE + RING_RECORDS * CONSTANTS["PLN_RECORD_SIZE"]
RINGS = 3
SANE = {
    "magic": CONSTANTS["PLN_MAGIC"],
    "version": CONSTANTS["PLN_VERSION"],
    "pid": 1,
    "strings_offset": PAGE,
    "strings_size": PAGE,
    "rings_offset": 2 * PAGE,
    "ring_stride": STRIDE,
    "ring_records": RING_RECORDS,
    "ring_max": RINGS,
    "ring_count": RINGS,
}
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


def _pack(layout: Any, values: dict[str, int]) -> bytes:
    record = np.zeros(1, np.dtype(layout.dtype_spec()))
    for field, value in values.items():
        record[field] = value
    return record.tobytes()


@contextmanager
def _forged(header: dict[str, int], ring: dict[str, int] | None = None, seals: int = SEALS) -> Iterator[int]:
    fd = os.memfd_create("pillion", os.MFD_ALLOW_SEALING)
    try:
        os.truncate(fd, 2 * PAGE + RINGS * STRIDE)
        os.pwrite(fd, _pack(REGION, header), 0)
        for i in range(RINGS):
            os.pwrite(fd, _pack(RING, ring or {}), 2 * PAGE + i * STRIDE)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        yield fd
    finally:
        os.close(fd)


def _session(fd: int, sink_fd: int) -> tuple[int, Any]:
    """Opens, records and closes; returns the error of opening and the sink."""
    error = ffi.new("int *")
    sink = ffi.new("struct pln_sink *", {"fd": sink_fd})
    reader = lib.pln_reader_open(fd, 1, 1, error)
    if reader:
        losses = ffi.new("struct pln_loss[]", 64)
        if lib.pln_reader_begin(reader, lib.PLN_CONSUMER_AGENT) == 0:
            lib.pln_reader_drain(reader, [sink], 1)
            lib.pln_reader_end(reader, [sink], 1)
        lib.pln_reader_losses(reader, losses, 64)
        lib.pln_reader_close(reader)
    return error[0], sink


def _open_error(fd: int) -> int:
    error = ffi.new("int *")
    reader = lib.pln_reader_open(fd, 1, 1, error)
    if reader:
        lib.pln_reader_close(reader)
    return int(error[0])


@pytest.mark.parametrize("in_time", [True, False])
def test_a_range_that_its_thread_ends_in_the_same_moment_as_the_session_is_recorded_once(in_time: bool) -> None:
    """The thread has seen its range open, is interrupted, and ends what the reader has closed meanwhile."""
    with _forged(SANE) as fd, os.fdopen(os.memfd_create("spool"), "w+b") as spool:
        region = mmap.mmap(fd, os.fstat(fd).st_size)
        ring = np.frombuffer(region, np.dtype(RING.dtype_spec()), 1, 2 * PAGE)
        entry = np.frombuffer(region, OPEN, 1, 2 * PAGE + CONSTANTS["PLN_OPEN_OFFSET"])
        record = np.frombuffer(region, RANGE, 1, 2 * PAGE + CONSTANTS["PLN_RING_HEADER"])

        def end_range() -> None:
            while entry["seq"] != 0:
                pass
            record["kind"], record["tid"], record["seq"] = CONSTANTS["PLN_RANGE"], 7, 3
            ring["head"], ring["busy"] = 1, 0

        sink = ffi.new("struct pln_sink *", {"fd": spool.fileno()})
        reader = lib.pln_reader_open(fd, 1, 1, ffi.new("int *"))
        thread = threading.Thread(target=end_range)
        assert lib.pln_reader_begin(reader, lib.PLN_CONSUMER_AGENT) == 0
        entry["seq"], entry["start_ns"] = 3, time.monotonic_ns()
        ring["tid"], ring["depth"], ring["busy"] = 7, 1, in_time
        if in_time:
            thread.start()
        lib.pln_reader_end(reader, [sink], 1)
        if not in_time:
            thread.start()
        thread.join()
        assert sink.records == 1
        assert lib.pln_reader_begin(reader, lib.PLN_CONSUMER_AGENT) == 0
        lib.pln_reader_end(reader, [sink], 1)
        lib.pln_reader_close(reader)
        assert sink.records == 1


def test_a_sane_region_opens() -> None:
    with _forged(SANE) as fd:
        assert _open_error(fd) == 0


@pytest.mark.parametrize("seals", [0, fcntl.F_SEAL_GROW])
def test_a_region_that_could_shrink_is_refused(seals: int) -> None:
    with _forged(SANE, seals=seals) as fd:
        assert _open_error(fd) == errno.EPERM


def test_other_files_are_refused(tmp_path: Any) -> None:
    with open(tmp_path / "file", "w+b") as file:
        assert _open_error(file.fileno()) == errno.EPERM
    assert _open_error(-1) == errno.EPERM


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("magic", 1),
        ("version", 2),
        ("strings_offset", 0),
        ("strings_offset", (1 << 64) - PAGE),
        ("strings_size", 1 << 63),
        ("strings_size", (1 << 64) - 8),
        ("rings_offset", 1 << 40),
        ("rings_offset", 2 * PAGE + 8),
        ("ring_stride", 0),
        ("ring_stride", PAGE),
        ("ring_records", 0),
        ("ring_records", 65),
        ("ring_records", 1 << 31),
        ("ring_max", 0),
        ("ring_max", (1 << 32) - 1),
    ],
)
def test_nonsense_is_refused(field: str, value: int) -> None:
    with _forged({**SANE, field: value}) as fd:
        assert _open_error(fd) == errno.EPROTO


def _fields(layout: Any, sane: dict[str, int]) -> st.SearchStrategy[dict[str, int]]:
    """Any subset of the fields, each with any value, often one near an edge."""
    values: dict[str, st.SearchStrategy[int]] = {}
    for field, (fmt, _) in layout.fields.items():
        if fmt in ("<u4", "<u8"):
            top = (1 << 8 * int(fmt[-1])) - 1
            near = [0, 1, top, top - PAGE + 1, sane.get(field, 0), sane.get(field, 0) + PAGE, RING_RECORDS + 1]
            values[field] = st.integers(0, top) | st.sampled_from(near)
    return st.fixed_dictionaries({}, optional=values)


@settings(max_examples=300, deadline=None)
@given(_fields(REGION, SANE), _fields(RING, {}))
def test_no_region_harms_its_reader(header: dict[str, int], ring: dict[str, int]) -> None:
    sink_fd = os.memfd_create("sink")
    with _forged({**SANE, **header}, {**ring, "busy": 0}) as fd:
        error, sink = _session(fd, sink_fd)
        assert error in (0, errno.EPROTO, errno.ENOMEM)
        assert os.fstat(sink_fd).st_size == sink.bytes
    os.close(sink_fd)


def test_a_busy_flag_that_stays_up_holds_nobody_up() -> None:
    sink_fd = os.memfd_create("sink")
    with _forged(SANE, {"busy": 1}) as fd:
        assert _session(fd, sink_fd)[0] == 0
    os.close(sink_fd)


def test_counters_that_make_no_sense_are_counted(collect: Callable[..., Any]) -> None:
    with _forged(SANE) as fd:
        collector = collect(fd)
        collector.begin()
        head_offset = 2 * PAGE + RING.fields["head"][1]
        os.pwrite(fd, struct.pack("<Q", RING_RECORDS + 1), head_offset)
        assert collector.drain() == 0
        os.pwrite(fd, struct.pack("<Q", RING_RECORDS), head_offset)  # backwards
        assert collector.drain() == 0
        assert collector.losses() == {lib.PLN_LOSS_CORRUPT: 2}


def test_there_is_one_consumer_at_a_time(collect: Callable[..., Any]) -> None:
    first, second = collect(), collect()
    first.begin()
    assert lib.pln_reader_begin(second.reader, lib.PLN_CONSUMER_AGENT) == -errno.EBUSY
    assert lib.pln_self_start(first.spool.fd) == -errno.EBUSY
    first.end()
    second.begin()


def test_an_expired_lease_is_taken_over(collect: Callable[..., Any]) -> None:
    with _forged({**SANE, "recording": 1, "consumer_pid": os.getpid(), "consumer_kind": 1, "lease_ns": 1}) as fd:
        collector = collect(fd)
        collector.begin()
        assert collector.header()["consumer_pid"] == os.getpid()
        assert collector.header()["lease_ns"] > 1


@pytest.mark.parametrize(("kind", "taken_over"), [("AGENT", True), ("SELF", False)])
def test_a_consumer_that_died_is_replaced_where_its_pid_means_something(
    collect: Callable[..., Any], kind: str, taken_over: bool
) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    held = {"consumer_pid": gone.pid, "consumer_kind": CONSTANTS[f"PLN_CONSUMER_{kind}"], "lease_ns": (1 << 63) - 1}
    with _forged({**SANE, **held}) as fd:
        result = lib.pln_reader_begin(collect(fd).reader, lib.PLN_CONSUMER_AGENT)
        assert result == (0 if taken_over else -errno.EBUSY)


def test_a_consumer_that_was_replaced_is_told(collect: Callable[..., Any]) -> None:
    with _forged(SANE) as fd:
        collector = collect(fd)
        collector.begin()
        os.pwrite(fd, struct.pack("<I", 1), REGION.fields["consumer_pid"][1])
        assert collector.drain() == -errno.ESTALE


def test_a_pause_that_a_late_consumer_caused_is_counted(recording: Any) -> None:
    os.pwrite(recording.fd, struct.pack("<I", 0), REGION.fields["recording"][1])
    recording.drain()
    assert lib.pln_active()
    assert recording.losses() == {lib.PLN_LOSS_STALLED: 1}


def test_a_full_ring_stops_recording_once_nobody_drains(alone: Callable[..., Any]) -> None:
    code = f"""
with _Range("makes the region"):
    pass
os.pwrite(lib.pln_region_fd(), (1).to_bytes(8, "little"), {REGION.fields["lease_ns"][1]})
active = []
for _ in range(70):
    with _Range("step"):
        pass
    active.append(lib.pln_active())
print((active[0], active[-1]))
"""
    assert alone(code, PILLION_RECORD="1", PILLION_RING_RECORDS="64") == (1, 0)


def test_every_sink_gets_every_record_and_all_names(recording: Any) -> None:
    with _Range("early"):
        pass
    recording.drain()
    late_fd = os.memfd_create("late")
    late = ffi.new("struct pln_sink *", {"fd": late_fd})
    with _Range("late"):
        pass
    lib.pln_reader_drain(recording.reader, [recording.spool.sink, late], 2)
    assert late.records == 1
    assert late.strings_written == recording.spool.sink.strings_written == recording.header()["strings_used"]
    assert len(recording.spool.records()) == 2
    os.close(late_fd)


def test_a_full_disk_ends_a_sink_at_a_whole_block(alone: Callable[..., Any]) -> None:
    code = """
import resource
def collect(names):
    for name in names:
        with _Range(name):
            pass
    return lib.pln_reader_drain(reader, sinks, 2)
full, fine = (ffi.new("struct pln_sink *", {"fd": os.memfd_create("sink")}) for _ in range(2))
sinks = [full, fine]
lib.pln_setup()
reader = lib.pln_reader_open(lib.pln_region_fd(), 1, 1, ffi.new("int *"))
lib.pln_reader_begin(reader, lib.PLN_CONSUMER_AGENT)
collect(["a"])
whole = os.fstat(full.fd).st_size
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (whole + 100, hard))
os.lseek(full.fd, 0, os.SEEK_END)
lib.pln_reader_drain(reader, [full], 0)
for _ in range(7):
    with _Range("a"):
        pass
lib.pln_reader_drain(reader, [full], 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
again = collect(["b"])
print((full.error, os.fstat(full.fd).st_size == whole == full.bytes, again, fine.error, fine.records))
"""
    thread_record = 1
    assert alone(code) == (errno.EFBIG, True, 1, 0, thread_record + 2)
