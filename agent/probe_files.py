"""Files with USDT probes, by what they are and not by their names: a copy in a container is the same file or another.

A file is opened through a descriptor that the client sent, or through the mapping of a recorded process
(/proc/PID/map_files): the agent follows no path that somebody else could have made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pillion_agent.programs import kernel_release
from pillion_agent.usdt import Probe, read_probes

_MAX_KNOWN = 4096  # files; then it starts over


class Identity(NamedTuple):
    """Of a file as it is now."""

    device: int
    inode: int
    size_bytes: int
    changed_ns: int


@dataclass(frozen=True)
class ProbeFile:
    """A file that is open: valid inside ``opened``.

    Attributes:
        name: for messages.
        fd: what to attach to.
    """

    identity: Identity
    name: str
    fd: int
    probes: Sequence[Probe]


class ProbeFiles:
    """Reads each file once."""

    def __init__(self) -> None:
        self._known: dict[Identity, Sequence[Probe] | str] = {}

    @contextmanager
    def opened(self, path: Path, name: str) -> Iterator[ProbeFile]:
        """A file and its probes.

        Args:
            path: to open; a link of /proc that leads to the file itself.
            name: what messages call it.

        Raises:
            OSError: it cannot be opened.
            ValueError: it is no ELF file that we can read, in words for the user.
        """
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            yield self._read(fd, name)
        finally:
            os.close(fd)

    def _read(self, fd: int, name: str) -> ProbeFile:
        info = os.fstat(fd)
        identity = Identity(info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)
        if identity not in self._known:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            path = Path(f"/proc/self/fd/{fd}")
            try:
                self._known[identity] = read_probes(path)
            except ValueError as error:
                self._known[identity] = str(error).replace(f"{path}: ", "").replace(str(path), "it")
        known = self._known[identity]
        if isinstance(known, str):
            raise ValueError(known)
        return ProbeFile(identity, name, fd, known)


def is_unsafe(probe: Probe) -> bool:
    """Whether to attach there could break the process.

    Since Linux 6.18 the kernel makes a nop of five bytes a call, whose return address lands in the red zone: of 1,009
    calls to a leaf function that kept a variable there 1,008 were wrong (tests/targets/usdt_long_nop.c). Our own probes
    are in functions that keep nothing there.
    """
    return probe.long_nop and probe.provider != "pillion" and kernel_release() >= (6, 18)
