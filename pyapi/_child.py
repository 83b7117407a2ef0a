"""The command that ``pillion run`` runs: forked at once, executed when the recording is in place."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shutil
import signal
from collections.abc import Mapping, Sequence
from types import TracebackType

from pillion._errors import PillionError
from pillion._interrupts import Aborted


class Child:
    """A process that waits before its first instruction, so that nothing of it is missed.

    Leaving ``with`` before ``release`` ends it unseen; after that only an abort ends it.

    Raises:
        PillionError: no such command; exit code 127, or 126 where it may not be executed, as a shell has it.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        if not shutil.which(command[0], path=environment.get("PATH")):
            raise _not_executed(command[0], errno.EACCES if os.path.exists(command[0]) else errno.ENOENT)
        self._command = list(command)
        gate, self._gate = os.pipe()
        self._failure, failure = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._gate)
            _wait_and_execute(gate, failure, self._command, environment)
        os.close(gate)
        os.close(failure)
        self._pidfd = os.pidfd_open(self.pid)
        self._status: int | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._gate >= 0:  # never released: it reads the end of the gate and exits
            self._close_gate()
            self.wait()
        elif self._status is None and isinstance(error, (Aborted, KeyboardInterrupt)):
            self.forward(signal.SIGTERM)
        os.close(self._failure)
        os.close(self._pidfd)

    def fileno(self) -> int:
        """Readable once the process has ended."""
        return self._pidfd

    def release(self) -> None:
        """Lets it execute the command.

        Raises:
            PillionError: the kernel refused to, exit code 126 or 127.
        """
        os.write(self._gate, b"!")
        self._close_gate()
        refused = os.read(self._failure, 16)  # ends when the command takes over: the descriptor closes on exec
        if refused:
            self.wait()
            raise _not_executed(self._command[0], int(refused))

    def forward(self, number: int) -> None:
        """Passes a signal on, unless the terminal has delivered it to both of us (Ctrl-C, Ctrl-\\)."""
        if number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground():
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def has_ended(self) -> bool:
        return bool(select.select([self._pidfd], [], [], 0)[0])

    def wait(self) -> int:
        """Waits for its end; returns its exit code, 128 + N if signal N killed it."""
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status if self._status >= 0 else 128 - self._status

    def _close_gate(self) -> None:
        os.close(self._gate)
        self._gate = -1


def _wait_and_execute(gate: int, failure: int, command: list[str], environment: Mapping[str, str]) -> None:
    """The child's side of the fork; does not return."""
    try:
        if os.read(gate, 1):
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec would pass that on
                signal.signal(number, signal.SIG_DFL)
            try:
                os.execvpe(command[0], command, environment)
            except OSError as error:
                script = _script(command[0], environment) if error.errno == errno.ENOEXEC else None
                if not script:
                    raise
                os.execve("/bin/sh", ["sh", script, *command[1:]], environment)
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(127)


def _script(command: str, environment: Mapping[str, str]) -> str | None:
    """A script that does not say what runs it is the shell's, as execvp(3) and shells have it."""
    path = shutil.which(command, path=environment.get("PATH"))
    if not path:
        return None
    with open(path, "rb") as file:
        head = file.read(128)
    return None if head.startswith(b"\x7fELF") or b"\0" in head else path


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _not_executed(command: str, number: int) -> PillionError:
    if number == errno.ENOENT:
        return PillionError(f"cannot run {command}", "no such command", "check its name and PATH", code=127)
    return PillionError(f"cannot run {command}", os.strerror(number), "check its permissions and format", code=126)
