"""An agent for tests of its clients: the protocol over a real socket, a spool that is known beforehand, no kernel."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DONE = {"event": "done", "reason": "finish", "samples": 3, "waits": 1, "ranges": 4, "losses": {}, "cost": {}}
PROGRESS = {"event": "progress", "samples": 3, "waits": 1, "ranges": 4, "lost": 0, "processes": 1, "alive": 1}


@dataclass
class Script:
    """What the agent does when it is asked to record.

    Attributes:
        spool: what it writes at once.
        refusal: its answer, instead of "ok".
        then: after "ok", "serve", "die" (close without a word), "fail" (send ``failure``), "end" (of itself) or "hang"
            (never finish).
        failure: the message that ends the session.
    """

    spool: bytes = b""
    refusal: dict[str, Any] | None = None
    then: str = "serve"
    failure: dict[str, Any] | None = None


class FakeAgent:
    """Listens at ``directory``/agent.sock until ``close``.

    Attributes:
        script: for the sessions to come.
        requests: every message that was received.
    """

    def __init__(self, directory: Path, script: Script) -> None:
        self.script = script
        self.requests: queue.Queue[dict[str, Any]] = queue.Queue()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(directory / "agent.sock"))
        self._listener.listen()
        self._wake, self._closing = os.pipe()
        self._thread = threading.Thread(target=self._accept, name="fake agent")
        self._thread.start()

    def close(self) -> None:
        os.close(self._closing)
        self._thread.join()
        os.close(self._wake)
        self._listener.close()

    def _accept(self) -> None:
        while self._listener in select.select([self._listener, self._wake], [], [])[0]:
            connection, _ = self._listener.accept()
            with connection, contextlib.suppress(ConnectionError):
                self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        watched: list[int] = []
        try:
            while True:
                ready = select.select([connection, self._wake, *watched], [], [])[0]
                if self._wake in ready:
                    return
                if connection not in ready:  # every watched process has ended, as far as these tests go
                    _send(connection, {**PROGRESS, "alive": 0})
                    os.close(watched.pop())
                    continue
                data, descriptors, _, _ = socket.recv_fds(connection, 65536, 1)
                if not data:
                    return
                message = json.loads(data)
                watched += [os.pidfd_open(pid) for pid in message.get("pids", ())[:1]]
                self.requests.put(message)
                if not self._answer(connection, message, descriptors):
                    return
        finally:
            for descriptor in watched:
                os.close(descriptor)

    def _answer(self, connection: socket.socket, message: dict[str, Any], descriptors: list[int]) -> bool:
        """Whether the conversation goes on."""
        if message["op"] == "finish":
            if self.script.then != "hang":
                _send(connection, DONE)
            return self.script.then == "hang"
        if message["op"] != "record":
            _send(connection, {"ok": True, "pid": os.getpid(), "version": "0", "sessions": []})
            return message["op"] != "stop"
        (spool,) = descriptors
        with os.fdopen(spool, "wb") as file:
            if self.script.refusal:
                _send(connection, self.script.refusal)
                return False
            file.write(self.script.spool)
        _send(connection, {"ok": True, "session": 1, "start_ns": 1})
        _send(connection, PROGRESS)
        if self.script.then == "fail":
            _send(connection, self.script.failure or {})
        elif self.script.then == "end":
            _send(connection, DONE)
        return self.script.then in ("serve", "hang")


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.send(json.dumps(message).encode())
