"""/proc of one process, where psutil has no answer or a slow one."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) (\S+) (\d+) *(.*)")
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PF_EXITING = 4  # include/linux/sched.h


@dataclass(frozen=True)
class Mapping:
    """path is empty for memory without a file, and "[vdso]" or the like for the kernel's.

    file is the device and the inode, as the kernel writes them; inode "0" is none.
    """

    start: int
    end: int
    offset: int
    permissions: str
    path: str
    file: tuple[str, str] = ("00:00", "0")


def read_mappings(pid: int) -> list[Mapping]:
    """Mappings of a process, in address order.

    Raises:
        OSError: no such process, or not ours to look at.
    """
    found = []
    # By the newline alone: a path may hold whatever else Python takes for the end of a line.
    for line in os.fsdecode(Path(f"/proc/{pid}/maps").read_bytes()).split("\n"):
        match = _MAPPING.match(line)
        if match:
            start, end, offset = (int(match[group], 16) for group in (1, 2, 4))
            path = match[7].removesuffix(" (deleted)")
            found.append(Mapping(start, end, offset, match[3], path, (match[5], match[6])))
    return found


def mapped_file(pid: int, mapping: Mapping) -> Path:
    """A path that leads us to the file of a mapping, whatever is the process's root, and if the file has lost its name.

    Where the kernel shows no such path, or the mapping has changed since, it is the file of that name in its root; when
    the process has ended, that of the name as we saw it, if it is the same file.
    """
    for path in (f"map_files/{mapping.start:x}-{mapping.end:x}", f"root{mapping.path}"):
        if os.path.exists(f"/proc/{pid}/{path}"):
            return Path(f"/proc/{pid}/{path}")
    with suppress(OSError):
        status = os.stat(mapping.path)
        # The device as well: who mounts a file system of its own chooses the numbers of its files.
        if (f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}", str(status.st_ino)) == mapping.file:
            return Path(mapping.path)
    return Path(f"/proc/{pid}/root{mapping.path}")


@dataclass(frozen=True)
class ProcessInfo:
    """What a spool's "process" object says.

    Attributes:
        start_ns: on CLOCK_MONOTONIC, as exact as the kernel's tick.
        exiting: it has begun to end, or is a zombie; while False, its exit is still to be traced.
    """

    pid: int
    ppid: int
    start_ns: int
    comm: str
    cmdline: str
    uid: int
    exiting: bool = False


def read_process(pid: int, boot_offset_ns: int, cmdline: str = "") -> ProcessInfo:
    """A process as /proc shows it.

    Args:
        boot_offset_ns: CLOCK_BOOTTIME − CLOCK_MONOTONIC.
        cmdline: what it is called where /proc does not say it: it has begun to end.

    Raises:
        OSError: no such process.
    """
    root = Path(f"/proc/{pid}")
    stat = (root / "stat").read_text(errors="replace")
    comm = stat[stat.index("(") + 1 : stat.rindex(")")]
    fields = stat[stat.rindex(")") + 2 :].split()
    cmdline = one_line((root / "cmdline").read_bytes()) or cmdline
    return ProcessInfo(
        pid=pid,
        ppid=int(fields[1]),
        start_ns=int(fields[19]) * _TICK_NS - boot_offset_ns,
        comm=comm,
        cmdline=cmdline or f"[{comm}]",
        uid=root.stat().st_uid,
        exiting=bool(int(fields[6]) & _PF_EXITING),
    )


def one_line(arguments: bytes) -> str:
    """A command line from arguments that end with NUL."""
    return arguments.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")


def read_environment(pid: int) -> dict[str, str]:
    """The environment that a process was started with.

    Raises:
        OSError: no such process, one that has ended, or not ours to look at.
    """
    entries = os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes()).split("\0")
    if entries == [""] and not Path(f"/proc/{pid}/cmdline").read_bytes():
        raise ProcessLookupError(f"process {pid} has no memory any more")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def process_of(tid: int) -> int:
    """The process that a thread belongs to: /proc knows every thread by its own number, too.

    Raises:
        OSError: no such thread.
    """
    status = Path(f"/proc/{tid}/status").read_text(errors="replace")
    return int(status.partition("\nTgid:")[2].partition("\n")[0])


def thread_ids(pid: int) -> list[int]:
    """Raises OSError when the process has gone."""
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")]


def find_regions(pid: int) -> list[str]:
    """Paths of the descriptors that are regions ("memfd:pillion") in a process."""
    root = f"/proc/{pid}/fd"
    found = []
    for name in os.listdir(root):
        try:
            if os.readlink(f"{root}/{name}").startswith("/memfd:pillion"):
                found.append(f"{root}/{name}")
        except OSError:
            continue  # closed while we looked
    return found
