"""For the benches: an agent of their own, and jobs that work on command."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from pillion._client import AgentClient, RecordRequest

# Pure Python: the interpreter's own speed. About 0.4 s.
_JOB = """
import sys, time
from pillion import record_function

def work(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total

def steps():
    for _ in range(10):
        inner()

def inner():
    work(600_000)

for line in sys.stdin:
    start = time.perf_counter_ns()
    if line.startswith("ranges"):
        for _ in range(int(line.split()[1])):
            with record_function("step"):
                pass
    else:
        steps()
    print(time.perf_counter_ns() - start, flush=True)
"""


class Job:
    """A Python process that does one unit of work for each line and says how long it took."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _JOB], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid
        self.work()  # warm

    def begin(self, what: str = "work") -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()

    def end(self) -> int:
        """Waits for the unit; its ns."""
        assert self._process.stdout
        return int(self._process.stdout.readline())

    def work(self, what: str = "work") -> int:
        self.begin(what)
        return self.end()

    def close(self) -> None:
        self._process.communicate()


@contextlib.contextmanager
def agent() -> Iterator[None]:
    """Needs root and bcc; says so and ends the bench otherwise."""
    if os.geteuid() != 0:
        raise SystemExit("skipped: the agent needs root")
    with tempfile.TemporaryDirectory(prefix="pillion-") as directory:
        os.environ["PILLION_SOCKET"] = directory
        subprocess.run([sys.executable, "-m", "pillion", "agent", "start"], check=True, capture_output=True)
        try:
            yield
        finally:
            subprocess.run([sys.executable, "-m", "pillion", "agent", "stop"], check=True, capture_output=True)


def status() -> dict[str, Any]:
    with AgentClient() as client:
        return client.status()


@contextlib.contextmanager
def recorded(*pids: int, **options: Any) -> Iterator[None]:
    """The agent records these processes meanwhile."""
    with tempfile.TemporaryFile() as spool, AgentClient() as client:
        client.record(RecordRequest(pids=pids, **options), spool.fileno())
        yield
        client.finish()
