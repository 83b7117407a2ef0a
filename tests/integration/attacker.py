"""What a user without rights may try on an agent. ``python attacker.py NAME DIRECTORY`` holds it until stdin closes.

It says "ready" once everything that it can send has been sent; nothing of it is expected to be answered well.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pillion_probes import CONSTANTS, STRUCTS

REGION, RING = STRUCTS["pln_region"], STRUCTS["pln_ring"]
PAGE = 4096
RECORDS = 64
STRIDE = PAGE + RECORDS * CONSTANTS["PLN_RECORD_SIZE"]
RINGS = 65536
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
MAGIC = struct.pack("<QII", CONSTANTS["PLN_MAGIC"], 1, 0)
ROUNDS = 101

kept: list[Any] = []  # what stays open until the end


def connect(directory: Path, name: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(str(directory / name))
    kept.append(connection)
    return connection


def ask(directory: Path, data: bytes, fds: list[int] | None = None) -> dict[str, Any]:
    """A message on a connection of its own, and the answer; {} where the agent hangs up."""
    connection = connect(directory, "agent.sock")
    with contextlib.suppress(ConnectionError):
        socket.send_fds(connection, [data], fds or [])
    try:
        answer = connection.recv(65536)
    except ConnectionResetError:  # reported once, before the messages that came first
        answer = connection.recv(65536)
    kept.remove(connection)
    connection.close()
    return json.loads(answer) if answer else {}


def announce(directory: Path, fds: list[int], data: bytes = MAGIC) -> None:
    with connect(directory, "rings.sock") as connection, contextlib.suppress(ConnectionError):
        socket.send_fds(connection, [data], fds)
    kept.pop()


def record(**fields: Any) -> bytes:
    return json.dumps({"op": "record", "self": True, **fields}).encode()


# ---- the clients' socket ----


def garbage(directory: Path) -> None:
    """What is no request, in many ways."""
    wrong = [
        b"\0",
        b"\xff" * 1000,
        b"[]",
        b"null",
        b"1e999999",
        b'"' * 60000,
        b"[" * 60000,
        b'{"op":' * 9000,
        b"{}",
        b'{"op": null}',
        b'{"op": {}}',
        b'{"op": ["record"]}',
        b'{"op": "finish"}',
        b'{"op": "' + b"x" * 60000 + b'"}',
        record(pids=None, self=False),
        record(pids="1", self=False),
        record(pids=[-1], self=False),
        record(pids=[[]], self=False),
        record(rate_hz="9"),
        record(rate_hz=-1),
        record(rate_hz=10**30),
        record(rate_hz=None),
        record(transport=[]),
        record(wait_threshold_ns=-1),
        record(wait_threshold_ns={}),
        record(self=False),
    ]
    with tempfile.TemporaryFile() as spool:
        for data in wrong:
            answer = ask(directory, data, [spool.fileno()])
            assert answer.get("ok") is False, data[:40]
            assert answer["code"] == 2, answer
            assert len(json.dumps(answer)) < 500, answer


def long_messages(directory: Path) -> None:
    """Longer than a message may be; the rest is cut off, and what is left is none."""
    for size in (65537, 100_000, 200_000):
        assert ask(directory, b'{"op": "status", "x": "' + b"x" * size + b'"}').get("code") == 2


def wrong_files(directory: Path) -> None:
    """Spools that are none, and files where none belong."""
    read, write = os.pipe()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as spool:
        path = Path(folder, "file")
        path.touch()
        folder_fd, read_only, path_only = (
            os.open(folder, os.O_RDONLY),
            os.open(path, os.O_RDONLY),
            os.open(path, os.O_PATH),
        )
        ends = [end.fileno() for end in socket.socketpair()]
        wrong = [[], [folder_fd], [read], [write], [read_only], [path_only], [spool.fileno()] * 2, [spool.fileno()] * 9]
        for fds in [*wrong, ends[:1]]:
            assert ask(directory, record(), fds).get("code") == 2, fds
    for _ in range(ROUNDS):
        ask(directory, b"", [read, write])  # nothing, with files


def crowd(directory: Path) -> None:
    """More connections than any user needs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(2000, hard - 100)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for _ in range(count):
        connect(directory, "agent.sock")
    assert ask(directory, b'{"op": "status"}')["error"] == "too many connections"


def deaf(directory: Path) -> None:
    """Asks and asks, and reads nothing; then records itself and ends that, and still does not."""
    for _ in range(11):
        connection = connect(directory, "agent.sock")
        for _ in range(503):
            connection.send(b'{"op": "status"}')
        with tempfile.TemporaryFile() as spool:
            socket.send_fds(connection, [record()], [spool.fileno()])
        connection.send(b'{"op": "finish"}')


# ---- the regions' socket ----


def region(rings: int = 0, seals: int = SEALS, **header: int) -> int:
    """A memfd that is a region, but for what the arguments change."""
    sane = {
        "magic": CONSTANTS["PLN_MAGIC"],
        "version": CONSTANTS["PLN_VERSION"],
        "pid": os.getpid(),
        "strings_offset": PAGE,
        "strings_size": PAGE,
        "rings_offset": 2 * PAGE,
        "ring_stride": STRIDE,
        "ring_records": RECORDS,
        "ring_max": RINGS,
        "ring_count": rings,
        "recording": 1,
    }
    fd = os.memfd_create("pillion", os.MFD_ALLOW_SEALING)
    os.truncate(fd, 2 * PAGE + rings * STRIDE)
    values = np.zeros(1, np.dtype(REGION.dtype_spec()))
    for field, value in {**sane, **header}.items():
        values[field] = value
    os.pwrite(fd, values.tobytes(), 0)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def busy_ring(fd: int) -> int:
    """A ring whose thread is for ever in the middle of a record, and whose head makes no sense."""
    for field, value in (("busy", 1), ("depth", 2**32 - 1)):
        os.pwrite(fd, struct.pack("<I", value), 2 * PAGE + RING.fields[field][1])
    os.pwrite(fd, struct.pack("<Q", 2**64 - 1), 2 * PAGE + RING.fields["head"][1])
    return fd


def all_regions() -> list[int]:
    """Of every kind that an agent must refuse or survive."""
    random = os.memfd_create("pillion", os.MFD_ALLOW_SEALING)
    os.write(random, os.urandom(3 * PAGE))
    fcntl.fcntl(random, fcntl.F_ADD_SEALS, SEALS)
    shrunk = region(rings=3, seals=0)
    os.truncate(shrunk, PAGE)
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        no_memfd = os.dup(file.fileno())
        os.write(no_memfd, bytes(3 * PAGE))
    sane = region(rings=1)
    return [
        random,
        shrunk,
        no_memfd,
        *os.pipe(),
        os.open("/", os.O_RDONLY),
        os.open(f"/proc/self/fd/{sane}", os.O_RDONLY),
        region(seals=0),
        region(seals=fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL),
        region(strings_size=2**63),
        region(rings_offset=2**64 - PAGE),
        busy_ring(region(rings=1)),
        # Somebody records it already: the agent lets it be.
        region(rings=1, consumer_pid=1, consumer_kind=CONSTANTS["PLN_CONSUMER_AGENT"], lease_ns=time.monotonic_ns()),
    ]


def announcements(directory: Path) -> None:
    """Regions that are none, again and again, from a process that nobody records."""
    regions = all_regions()
    for _ in range(ROUNDS):
        for fd in regions:
            announce(directory, [fd])
        announce(directory, [])
        announce(directory, regions[:3])
        announce(directory, regions[:9])
        announce(directory, [regions[0]], b"PILLION?")
        announce(directory, [regions[0]], b"")


def silence(directory: Path) -> None:
    """Connections that never announce anything."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for _ in range(min(1009, hard - 100)):
        connect(directory, "rings.sock")


def recorded(directory: Path) -> None:
    """A process that has itself recorded, and is not what it says."""
    connection = connect(directory, "agent.sock")
    kept.append(spool := tempfile.TemporaryFile())  # noqa: SIM115 - open until the end
    socket.send_fds(connection, [record()], [spool.fileno()])
    assert json.loads(connection.recv(65536))["ok"]
    kept.extend(region(rings=RINGS) for _ in range(3))  # more rings than a process can map
    for fd in [*kept[-3:], *all_regions(), *(region(rings=1) for _ in range(ROUNDS))]:
        announce(directory, [fd])
    header = kept[-1]
    for _ in range(ROUNDS):  # while it is read
        os.pwrite(header, os.urandom(PAGE - 8), 8)


ATTACKS: dict[str, Callable[[Path], None]] = {
    attack.__name__: attack
    for attack in (garbage, long_messages, wrong_files, crowd, deaf, announcements, silence, recorded)
}

if __name__ == "__main__":
    ATTACKS[sys.argv[1]](Path(sys.argv[2]))
    print("ready", flush=True)
    sys.stdin.read()
