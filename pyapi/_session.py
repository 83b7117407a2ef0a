"""A recording from the command line: agent, output folder and signals brought together, for ``run`` and ``record``."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from pillion._agent_process import connect_or_start
from pillion._capture import Capture, write_capture
from pillion._child import Child
from pillion._client import AgentClient, Done, Progress, RecordRequest
from pillion._errors import CaptureError, PillionError
from pillion._interrupts import Aborted, Interrupts
from pillion._output import CaptureDirectory

# After the command's end its workers, and after Ctrl-C the command itself, have this long to end while still recorded.
GRACE_S = 1.0

Show = Callable[[Progress], None]


@dataclass(frozen=True)
class Limits:
    """What ends a recording, besides an interrupt and the end of all that is recorded.

    Attributes:
        duration_s: at most this long; None: no limit.
        child: the command whose end is the end.
    """

    duration_s: float | None = None
    child: Child | None = None


class Recording:
    """A session of the agent that fills a capture directory.

    ``begin``, ``follow``, ``save``, inside ``with``: whatever goes wrong, a directory with data stays and one without
    disappears.

    Attributes:
        failure: why the session ended early, or None.
        done: the agent's last word, None if it was lost.
        all_ended: the recording ended because every recorded process had.
    """

    def __init__(self, output: CaptureDirectory) -> None:
        self.output = output
        self.failure: PillionError | None = None
        self.done: Done | None = None
        self.all_ended = False
        self._client: AgentClient | None = None
        self._began = False

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client:
            self._client.close()
        if not self._began or not self.output.has_data():
            self.output.discard()
            return
        self.output.keep()
        if isinstance(error, KeyboardInterrupt):
            fix = f"`pillion report {self.output.path}` reads what was recorded"
            raise Aborted("aborted", fix=fix) from error

    def begin(self, request: RecordRequest) -> None:
        """Starts an agent if need be, makes the directory, and returns when everything is attached.

        Raises:
            PillionError: the agent or the place for the capture refuses; nothing is left behind.
        """
        self._client = connect_or_start()
        spool_fd = self.output.create_spool()
        try:
            self._client.record(request, spool_fd)
        finally:
            os.close(spool_fd)
        self._began = True

    def follow(self, limits: Limits, interrupts: Interrupts, show: Show) -> None:
        """Shows the agent's progress until something ends the recording, then ends the session."""
        assert self._client is not None, "begin() comes first"
        try:
            self.done = self._watch(self._client, limits, interrupts, show) or self._client.finish()
        except PillionError as error:
            self.failure = error
        finally:
            self._client.close()  # an agent with nothing to do may go

    def discard(self) -> None:
        """What was recorded is of no use: nothing of it stays."""
        self._began = False

    def save(self) -> Capture:
        """Makes the tables of the capture from the spool.

        Raises:
            CaptureError: they cannot be written; the spool stays, and is readable as it is.
        """
        if not self.output.has_data():
            raise self.failure or CaptureError("nothing was recorded", "the agent wrote nothing", "`pillion doctor`")
        try:
            return write_capture(self.output.spool_path, self.output.path)
        except CaptureError as error:
            fix = f"nothing is lost: `pillion report {self.output.path}` reads the spool"
            raise CaptureError(error.message, error.cause, fix) from error

    def _watch(self, client: AgentClient, limits: Limits, interrupts: Interrupts, show: Show) -> Done | None:
        """Returns when the recording should end; with the agent's last word if the agent itself ended it."""
        deadline_s = None if limits.duration_s is None else time.monotonic() + limits.duration_s
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ)
            selector.register(interrupts, selectors.EVENT_READ)
            if limits.child:
                selector.register(limits.child, selectors.EVENT_READ)
            while True:
                ready = selector.select(None if deadline_s is None else max(0.0, deadline_s - time.monotonic()))
                if not ready:
                    return None
                for key, _ in ready:
                    if key.fileobj is not client:
                        selector.unregister(key.fileobj)
                        grace_ends_s = time.monotonic() + (GRACE_S if limits.child else 0.0)
                        deadline_s = grace_ends_s if deadline_s is None else min(deadline_s, grace_ends_s)
                        continue
                    event = client.next_event(0)
                    if isinstance(event, Done):
                        return event
                    if event:
                        show(event)
                        self.all_ended = event.alive == 0
                # The agent sees the beginning of a process's end, some milliseconds before the parent can wait for it.
                if self.all_ended and (limits.child is None or limits.child.has_ended()):
                    return None
