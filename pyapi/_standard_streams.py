"""The command line's standard streams, in the state in which whoever started it left them: closed, full, unread."""

from __future__ import annotations

import contextlib
import os
import sys


def open_missing_streams() -> None:
    """Where a stream is closed, opens /dev/null: the next file would get its number, and what is said would go there.

    A command that is executed finds it closed, as it was.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number, inheritable=False)
                os.close(opened)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 for as long as this process lives


def say(text: str, end: str = "\n") -> None:
    """Writes to stderr. Nobody there to read it is no reason to end anything: then what follows is not said, either."""
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr.fileno())
        with contextlib.suppress(OSError):
            sys.stderr.flush()


def silence(number: int) -> None:
    """What is still to be written to this descriptor goes nowhere; Python flushes once more at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number, inheritable=False)
    os.close(nowhere)
