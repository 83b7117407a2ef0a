"""Recording with the real agent."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any

import pytest

from pillion._capture import Capture, read_spool_capture
from pillion._client import AgentClient, Done, Progress, RecordRequest

PROGRESS_TIMEOUT_S = 60


class RealRecording:
    """A session of the real agent, whose spool the test holds.

    Attributes:
        client: the connection.
        done: the agent's last word, after finish().
    """

    def __init__(self, request: RecordRequest) -> None:
        self.client = AgentClient()
        self.done: Done | None = None
        self._spool: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 close() closes it
        self.client.record(request, self._spool.fileno())

    def wait_for(self, condition: Callable[[Progress], bool]) -> Progress:
        """Reads progress until the condition holds."""
        while True:
            event = self.client.next_event(PROGRESS_TIMEOUT_S)
            assert isinstance(event, Progress), f"no progress: {event}"
            if condition(event):
                return event

    def wait_for_end(self) -> None:
        """Until no recorded process lives."""
        self.wait_for(lambda progress: progress.alive == 0)

    def finish(self) -> Capture:
        self.done = self.client.finish()
        self.client.close()
        self._spool.seek(0)
        return read_spool_capture(self._spool)

    def close(self) -> None:
        self.client.close()
        self._spool.close()


@pytest.fixture
def recording(agent: object) -> Iterator[Callable[..., RealRecording]]:
    """``recording(pid, …, rate_hz=99, follow=False, …)`` begins a session; everything is attached when it returns."""
    sessions: list[RealRecording] = []

    def begin(*pids: int, **options: Any) -> RealRecording:
        sessions.append(RealRecording(RecordRequest(pids=pids, **options)))
        return sessions[-1]

    yield begin
    for session in sessions:
        session.close()
