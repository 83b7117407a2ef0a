"""Attaching an eBPF program to instructions of a file: the two system calls that bcc has no binding for.

What is returned are descriptors. Closing them, or dying, detaches, and the kernel takes the semaphores down again: in
every process that maps the file, whenever it came.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_SYS_PERF_EVENT_OPEN, _SYS_BPF = 298, 321  # x86-64
_BPF_LINK_CREATE = 28
_BPF_PERF_EVENT, BPF_TRACE_UPROBE_MULTI = 41, 48  # enum bpf_attach_type
_PERF_FLAG_FD_CLOEXEC = 8
_PERF_ATTR_BYTES = 128
_UPROBE_TYPE = Path("/sys/bus/event_source/devices/uprobe/type")


class Place(NamedTuple):
    """Where to attach.

    Attributes:
        location: file offset of the instruction.
        semaphore: file offset of the counter to raise, 0 for none.
        cookie: what the program is told.
    """

    location: int
    semaphore: int
    cookie: int


def attach_together(program_fd: int, file_fd: int, places: Sequence[Place], pid: int = 0) -> list[int]:
    """With one link for all (since Linux 6.6; the program is loaded with BPF_TRACE_UPROBE_MULTI).

    Args:
        pid: only in this process, whatever it maps or executes later; 0 for every process.

    Closing a link waits for the whole machine, 40 ms to 100 ms here, however many places it has.

    Raises:
        OSError: the kernel refuses.
    """
    path = _path(file_fd)
    columns = [(ctypes.c_uint64 * len(places))(*column) for column in zip(*places)]
    locations, semaphores, cookies = (ctypes.addressof(column) for column in columns)
    # prog_fd, target_fd, attach_type, flags; then struct uprobe_multi: path, three columns, cnt, flags, pid
    attributes = struct.pack(
        "=IIIIQQQQIII",
        *(program_fd, 0, BPF_TRACE_UPROBE_MULTI, 0),
        *(ctypes.addressof(path), locations, semaphores, cookies, len(places), 0, pid),
    )
    return [_create_link(attributes)]


def attach_each(program_fd: int, file_fd: int, places: Sequence[Place], pid: int = 0) -> list[int]:
    """With a perf event and a link for each (since Linux 5.15). As attach_together.

    Raises:
        OSError: the kernel refuses; nothing stays attached.
    """
    path = _path(file_fd)
    kind = int(_UPROBE_TYPE.read_text())
    who = (pid, -1) if pid else (-1, 0)  # process and CPU
    links: list[int] = []
    try:
        for location, semaphore, cookie in places:
            # type, size, config (the semaphore in its upper half), …, config1 the path, config2 the offset
            attributes = struct.pack(
                "=IIQ40xQQ", kind, _PERF_ATTR_BYTES, semaphore << 32, ctypes.addressof(path), location
            )
            event = _call(_SYS_PERF_EVENT_OPEN, _buffer(attributes, _PERF_ATTR_BYTES), *who, -1, _PERF_FLAG_FD_CLOEXEC)
            try:
                links.append(_create_link(struct.pack("=IIIIQ", program_fd, event, _BPF_PERF_EVENT, 0, cookie)))
            finally:
                os.close(event)  # the link keeps it
    except BaseException:
        for link in links:
            os.close(link)
        raise
    return links


def _path(file_fd: int) -> ctypes.Array[ctypes.c_char]:
    """The file itself, whatever has become of its name."""
    return ctypes.create_string_buffer(f"/proc/self/fd/{file_fd}".encode())


def _create_link(attributes: bytes) -> int:
    return _call(_SYS_BPF, _BPF_LINK_CREATE, _buffer(attributes, len(attributes)), len(attributes))


def _buffer(data: bytes, size: int) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(data, size)


def _call(number: int, *arguments: object) -> int:
    result = int(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
