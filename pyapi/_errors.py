"""What Pillion raises. The library raises; only the CLI and the agent's main print and exit."""

from __future__ import annotations


class PillionError(Exception):
    """The root of every error that Pillion raises on purpose.

    Attributes:
        message: what could not be done.
        cause: why, or "".
        fix: what mends it, or "".
        exit_code: of the command line: 1 failure, 2 usage, 3 environment unmet.

    ``str()`` is one line, "what: why; fix".
    """

    exit_code = 1

    def __init__(self, message: str, cause: str = "", fix: str = "", code: int | None = None) -> None:
        super().__init__(message, cause, fix, code)
        self.message = message
        self.cause = cause
        self.fix = fix
        if code is not None:
            self.exit_code = code

    def __str__(self) -> str:
        why = f": {self.cause}" if self.cause else ""
        fix = f"; {self.fix}" if self.fix else ""
        return " ".join(f"{self.message}{why}{fix}".split())


class UsageError(PillionError):
    """An argument is wrong."""

    exit_code = 2


class Unavailable(PillionError):
    """Something the machine lacks: never an empty result."""

    exit_code = 3

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason, fix=fix)
        self.args = (reason, fix)  # what a pickled copy is made from
        self.reason = reason


class CaptureError(PillionError):
    """A capture or a spool cannot be read or written."""
