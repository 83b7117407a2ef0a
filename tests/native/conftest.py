"""A collector in the test's own process, and jobs whose regions it receives as an agent would."""

from __future__ import annotations

import array
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pillion._native import ffi, lib
from pillion_probes import CONSTANTS, HEADER_PATH, STRUCTS

TIMEOUT_S = 60
RANGE = np.dtype(STRUCTS["pln_range"].dtype_spec())
BLOCK = np.dtype(STRUCTS["pln_block"].dtype_spec())
RING = np.dtype(STRUCTS["pln_ring"].dtype_spec())
ACTIVITY = np.dtype(STRUCTS["pln_activity"].dtype_spec())
REGION = np.dtype(STRUCTS["pln_region"].dtype_spec())

LIBRARY = Path(str(sys.modules["pillion._native"].__file__)).with_name("libpillion.so")
Records = npt.NDArray[np.void]


class Spool:
    """A memfd that a reader writes to, and what is in it."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("spool")
        self.sink = ffi.new("struct pln_sink *", {"fd": self.fd})

    def blocks(self) -> Iterator[tuple[np.void, bytes]]:
        data = os.pread(self.fd, os.fstat(self.fd).st_size, 0)
        at = 0
        while at < len(data):
            block = np.frombuffer(data, BLOCK, 1, at)[0]
            at += BLOCK.itemsize
            payload = data[at : at + int(block["length"])]
            assert block["magic"] == CONSTANTS["PLN_BLOCK_MAGIC"]
            assert len(payload) == block["length"]
            yield block, payload
            at += len(payload)

    def records(self, kind: str = "PLN_RANGE") -> Records:
        payloads = [payload for block, payload in self.blocks() if block["kind"] == CONSTANTS["PLN_BLOCK_RECORDS"]]
        records = np.frombuffer(b"".join(payloads), RANGE)
        return records[records["kind"] == CONSTANTS[kind]]

    def log(self) -> bytes:
        log = b""
        for block, payload in self.blocks():
            if block["kind"] == CONSTANTS["PLN_BLOCK_STRINGS"]:
                assert block["offset"] == len(log)
                log += payload
        return log

    def text(self, string_id: int) -> str:
        log = self.log()
        (length,) = struct.unpack_from("<I", log, int(string_id) * 8)
        return log[int(string_id) * 8 + 8 :][:length].decode()

    def named(self, name: str) -> Records:
        records = self.records()
        return records[[self.text(record["name"]) == name for record in records]]

    def said(self, kind: str = "PLN_RANGE") -> list[tuple[str, str]]:
        """Name and args of each record, in the order in which they were written."""
        records = self.records(kind)
        pairs = list(zip(records["name"].tolist(), records["args"].tolist()))
        texts = {text: self.text(text) for pair in set(pairs) for text in pair}
        return [(texts[name], texts[args]) for name, args in pairs]

    def close(self) -> None:
        os.close(self.fd)


class Collector:
    """One region and one spool."""

    def __init__(self, region_fd: int, spool: Spool) -> None:
        error = ffi.new("int *")
        self.fd = region_fd
        self.spool = spool
        self.reader = lib.pln_reader_open(region_fd, os.getpid(), 1, error)
        assert self.reader, os.strerror(error[0])

    def begin(self) -> None:
        assert lib.pln_reader_begin(self.reader, lib.PLN_CONSUMER_AGENT) == 0

    def drain(self) -> int:
        return int(lib.pln_reader_drain(self.reader, [self.spool.sink], 1))

    def end(self) -> None:
        lib.pln_reader_end(self.reader, [self.spool.sink], 1)

    def losses(self) -> dict[int, int]:
        """Losses by kind, over all threads."""
        losses = ffi.new("struct pln_loss[]", 4096)
        by_kind: dict[int, int] = {}
        for loss in losses[0 : lib.pln_reader_losses(self.reader, losses, len(losses))]:
            by_kind[loss.kind] = by_kind.get(loss.kind, 0) + loss.count
        return by_kind

    def header(self) -> np.void:
        return np.frombuffer(os.pread(self.fd, REGION.itemsize, 0), REGION)[0]

    def rings(self) -> list[np.void]:
        header = self.header()
        offsets = (int(header["rings_offset"]) + i * int(header["ring_stride"]) for i in range(header["ring_count"]))
        return [np.frombuffer(os.pread(self.fd, RING.itemsize, offset), RING)[0] for offset in offsets]

    def close(self) -> None:
        lib.pln_reader_close(self.reader)


@pytest.fixture
def collect() -> Iterator[Callable[..., Collector]]:
    """``collect(fd)`` opens a region; without fd the test process's own."""
    collectors: list[Collector] = []

    def make(region_fd: int | None = None) -> Collector:
        if region_fd is None:
            assert lib.pln_setup() == 0
            region_fd = lib.pln_region_fd()
        collectors.append(Collector(region_fd, Spool()))
        return collectors[-1]

    yield make
    for collector in collectors:
        collector.end()
        collector.close()
        collector.spool.close()


@pytest.fixture
def recording(collect: Callable[..., Collector]) -> Collector:
    """The test process itself, being recorded."""
    collector = collect()
    collector.begin()
    return collector


class Jobs:
    """Runs programs, and receives the regions that they announce."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(str(directory / "rings.sock"))
        self._socket.listen(64)
        self._socket.settimeout(TIMEOUT_S)
        self._fds: list[int] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str | Path, **env: str) -> subprocess.Popen[bytes]:
        """A job that records from its start."""
        process = subprocess.Popen(
            [str(word) for word in command],
            env={**os.environ, "PILLION_SOCKET": str(self._directory), "PILLION_RECORD": "1", **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._processes.append(process)
        return process

    def python(self, code: str, **env: str) -> subprocess.Popen[bytes]:
        return self.start(sys.executable, "-c", "from pillion._range import _Range\n" + code, **env)

    def region(self) -> tuple[int, int]:
        """(pid, descriptor) of the next region that is announced."""
        connection, _ = self._socket.accept()
        with connection:
            payload, control, _, _ = connection.recvmsg(16, socket.CMSG_SPACE(4))
        magic, pid, reserved = struct.unpack("<QII", payload)
        assert (magic, reserved) == (CONSTANTS["PLN_MAGIC"], 0)
        (fd,) = array.array("i", control[0][2])
        self._fds.append(fd)
        return pid, fd

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()
        for fd in self._fds:
            os.close(fd)
        self._socket.close()


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    running = Jobs(tmp_path)
    yield running
    running.close()


class GpuRecording:
    """What a job did with its GPU, as a collector saw it.

    Attributes:
        answer: the job's own, None where it gave none.
        calls: into CUDA, ranges.
        activities: of devices.
        notices: what was said, by its texts.
        losses: by kind.
    """

    def __init__(self, collector: Collector, answer: dict[str, Any] | None) -> None:
        self._log = collector.spool.log()
        self.answer = answer or {}
        self.losses = collector.losses()
        calls = collector.spool.records()
        self.calls = calls[calls["source"] == CONSTANTS["PLN_SOURCE_CUDA"]]
        self.activities = collector.spool.records("PLN_ACTIVITY").view(ACTIVITY)
        notices = collector.spool.records("PLN_NOTICE")
        self.notices = {self.text(notice["name"]): notice for notice in notices}

    def text(self, string_id: int) -> str:
        (length,) = struct.unpack_from("<I", self._log, int(string_id) * 8)
        return self._log[int(string_id) * 8 + 8 :][:length].decode(errors="replace")

    def names(self, records: Records) -> npt.NDArray[np.str_]:
        ids, which = np.unique(records["name"], return_inverse=True)
        return np.array([self.text(string_id) for string_id in ids] or [""])[which]

    def of_kind(self, *kinds: int) -> Records:
        return self.activities[np.isin(self.activities["activity"], kinds)]

    def outermost(self) -> Records:
        """Of calls with the same number, which are within each other, the outer ones."""
        order = np.lexsort((self.calls["depth"], self.calls["value"]))
        ordered = self.calls[order]
        return ordered[np.unique(ordered["value"], return_index=True)[1]]


@pytest.fixture
def record_gpu(
    fake_gpu: Callable[..., Any], jobs: Jobs, collect: Callable[..., Collector]
) -> Callable[..., GpuRecording]:
    """``record_gpu(*words, gpu=None, end="exit", **env)`` runs tests/fake_gpu/gpu_job.c and records it from its start.

    end: "exit" by itself; "session", the recording ends before the job does; or "kill", once it has worked.
    """

    def record(*words: str, gpu: Any = None, end: str = "exit", **env: str) -> GpuRecording:
        gpu = gpu or fake_gpu()
        waits = ("wait",) if end != "exit" else ()
        injected = {"CUDA_INJECTION64_PATH": str(LIBRARY), **env}
        process = jobs.start(gpu.compile(gpu.sources / "gpu_job.c"), *words, *waits, **gpu.environment(**injected))
        _, fd = jobs.region()
        collector = collect(fd)
        collector.begin()
        if waits:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
        lines = _lines_while_draining(process, collector, 2)
        if end == "session":
            lib.pln_reader_announce_end(collector.reader)
            while lib.pln_reader_awaits_sources(collector.reader):
                collector.drain()
        elif end == "kill":
            process.kill()
        if end != "session":
            while process.poll() is None:
                collector.drain()
                time.sleep(0.001)
        collector.end()
        return GpuRecording(collector, json.loads(lines[1]) if len(lines) > 1 else None)

    return record


def _lines_while_draining(process: subprocess.Popen[bytes], collector: Collector, count: int) -> list[bytes]:
    """The lines that a job writes, count or until it ends."""
    assert process.stdout is not None
    output = b""
    while output.count(b"\n") < count:
        collector.drain()
        if select.select([process.stdout], [], [], 0.001)[0]:
            got = os.read(process.stdout.fileno(), 65536)
            if not got:
                break
            output += got
    return output.splitlines()


def run_alone(code: str, **env: str) -> Any:
    """Runs Python code in a process, and so with a region, of its own; returns what it printed, evaluated."""
    prologue = "import os\nfrom pillion._native import ffi, lib\nfrom pillion._range import _Range\n"
    done = subprocess.run(
        [sys.executable, "-c", prologue + code],
        env={**os.environ, "PILLION_SOCKET": "/nonexistent", **env},
        stdout=subprocess.PIPE,
        check=True,
        timeout=TIMEOUT_S,
    )
    return eval(done.stdout)


@pytest.fixture
def alone() -> Callable[..., Any]:
    return run_alone


@pytest.fixture
def link() -> list[str]:
    """What a C program needs to be built with the library."""
    package = Path(lib_file).parent if (lib_file := sys.modules["pillion._native"].__file__) else Path()
    root = HEADER_PATH.parent.parent
    return [
        f"-I{root / 'cffi_build' / 'include'}",
        f"-I{HEADER_PATH.parent}",
        str(package / "libpillion.so"),
        f"-Wl,-rpath,{package}",
    ]
