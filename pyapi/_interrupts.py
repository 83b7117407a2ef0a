"""Signals while something is recorded: SIGINT or SIGTERM ends the recording, a second one ends Pillion.

What else a scheduler or a user sends to ``pillion run`` is meant for the command, which gets it.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from pillion._errors import PillionError

_ENDING = (signal.SIGINT, signal.SIGTERM)
_FOR_THE_COMMAND = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)
# `timeout` and others signal a process and then its group: two signals of one wish arrive within a millisecond.
_SAME_WISH_S = 0.1


class Aborted(PillionError):
    """The user would not wait for the end."""

    exit_code = 130  # as a shell has it for Ctrl-C


class Interrupts:
    """Inside ``with``, the first signal makes ``fileno()`` readable and a second one raises KeyboardInterrupt.

    Only for the main thread. ``forward``, if given, is called with the number of each signal, and takes the second
    SIGTERM as well.
    """

    def __init__(self, forward: Callable[[int], None] | None = None) -> None:
        self._seen_s: float | None = None
        self._forward = forward
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._previous = {number: signal.signal(number, self._handle) for number in _ENDING}
        if self._forward:
            self._previous |= {number: signal.signal(number, self._pass_on) for number in _FOR_THE_COMMAND}
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
        if self._seen_s is None:
            self._seen_s = time.monotonic()
            # A select() that a handler interrupted goes on waiting (PEP 475): the byte wakes it, and stays for later.
            self._write.send(b"!")
        elif (number == signal.SIGINT or not self._forward) and time.monotonic() - self._seen_s > _SAME_WISH_S:
            raise KeyboardInterrupt  # a command that takes its time to end is told again by SIGTERM, not left
        if self._forward:
            self._forward(number)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        assert self._forward
        self._forward(number)
