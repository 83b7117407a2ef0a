"""The agent's side of a spool: blocks appended to a descriptor that the client handed over."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from pillion._native import ffi, lib
from pillion_agent.errors import AgentError
from pillion_agent.symbols import Frame


def log_entry(text: bytes) -> bytes:
    """An entry of a string log, as pillion.h describes it; its hash is of no use to a reader."""
    entry = len(text).to_bytes(4, "little") + bytes(4) + text
    return entry + bytes(-len(entry) % 8)


class Spool:
    """Appends; the first failure is kept and ends the session.

    Attributes:
        error: None, or what went wrong.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.error: AgentError | None = None
        self._frames: dict[Frame, int] = {}
        self._pending: list[dict[str, Any]] = []

    def close(self) -> None:
        os.close(self.fd)

    def fail(self, number: int) -> None:
        """Keeps an errno of a write."""
        if not self.error:
            self.error = AgentError(
                "recording stopped",
                f"cannot write the capture: {os.strerror(number)}",
                "what was recorded until then is kept; make room",
            )

    def put(self, **item: Any) -> None:
        """Queues a JSON object."""
        self._pending.append(item)

    def put_stack(self, stack: int, frames: Iterable[Frame]) -> None:
        """Queues a stack, and the frames that are new to this spool."""
        ids = []
        for frame in frames:
            if frame not in self._frames:
                self._frames[frame] = len(self._frames) + 1
                self.put(type="frame", id=self._frames[frame], **frame._asdict())
            ids.append(self._frames[frame])
        self.put(type="stack", id=stack, frames=ids)

    def flush(self) -> None:
        """Writes the queued objects as one block."""
        if self._pending and not self.error:
            text = json.dumps(self._pending, separators=(",", ":")).encode()
            self._check(lib.pln_spool_json(self.fd, text, len(text)))
        self._pending.clear()

    def write(self, kind: int, payload: Any, size: int, pid: int = 0, region: int = 0, offset: int = 0) -> None:
        """Appends one block; payload is bytes or a cffi pointer."""
        if size and not self.error:
            block = ffi.new(
                "struct pln_block *", {"kind": kind, "pid": pid, "region": region, "offset": offset, "length": size}
            )
            self._check(lib.pln_spool_block(self.fd, block, payload))

    def _check(self, result: int) -> None:
        if result < 0:
            self.fail(-result)
