"""SIGINT and SIGTERM while something is recorded: the first ends the recording, the second ends Pillion."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from pillion._errors import PillionError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Aborted(PillionError):
    """The user would not wait for the end."""

    exit_code = 130  # as a shell has it for Ctrl-C


class Interrupts:
    """Inside ``with``, the first signal makes ``fileno()`` readable and the second raises KeyboardInterrupt.

    Only for the main thread. ``forward``, if given, is called with the number of the first signal.
    """

    def __init__(self, forward: Callable[[int], None] | None = None) -> None:
        self.seen = False
        self._forward = forward
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._previous = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._read.close()
        self._write.close()

    def fileno(self) -> int:
        return self._read.fileno()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.seen:
            raise KeyboardInterrupt
        self.seen = True
        # A select() that a handler interrupted goes on waiting (PEP 475): the byte wakes it, and stays for the next.
        self._write.send(b"!")
        if self._forward:
            self._forward(number)
