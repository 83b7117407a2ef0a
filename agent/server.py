"""The agent's loop: clients on a Unix socket, regions announced by jobs, eBPF events, a timer.

One thread and no callbacks across modules: whatever is ready is handled, then everything is drained.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import stat
import struct
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from pillion._native import lib
from pillion_agent.errors import AgentError
from pillion_agent.recorder import Recorder
from pillion_agent.session import Request, Session, monotonic_ns

MAX_MESSAGE = 65536
# Python's fastest loop of ranges fills a ring in 38 ms; the eBPF buffer wakes us earlier by itself.
DRAIN_EVERY_S = 0.025
_DRAIN_AGAIN_S = 0.002  # when a ring was a quarter full: there is a burst
_PROGRESS_EVERY_NS = 500_000_000
_IDLE_EXIT_NS = 5_000_000_000
_LAST_WORD_S = 1.0
_BACKLOG = 4096  # the kernel's own bound (net.core.somaxconn); a fork storm's regions wait here
_CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid


class Client:
    """One connection; at most one session."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.pid, self.uid = _peer(connection)
        self.session: Session | None = None
        self.told_ns = 0

    def receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """A message and its descriptors; None when the client has gone.

        Raises:
            AgentError: the bytes are no message.
        """
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, MAX_MESSAGE, 4)
        except BlockingIOError:
            return {}, []
        except OSError:
            return None
        if not data:
            return None
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            _close_all(fds)
            raise AgentError("bad request", "a message is one JSON object", "see ARCHITECTURE.md", code=2)
        return message, fds

    def send(self, message: dict[str, Any]) -> bool:
        """False when the client has gone. One that does not read at the moment misses the message."""
        try:
            self.socket.send(json.dumps(message).encode(), socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def send_last(self, message: dict[str, Any]) -> None:
        """Waits a moment for a client with unread progress in its buffer: it asked for this one, so it reads now."""
        self.socket.settimeout(_LAST_WORD_S)
        self.send(message)


class Server:
    """Listens in a directory: agent.sock for clients, rings.sock for regions.

    Raises:
        AgentError: another agent listens there, or the directory cannot be used.
    """

    def __init__(self, directory: Path, recorder: Recorder, idle_exit: bool) -> None:
        self._recorder = recorder
        self._directory = directory
        self._idle_exit = idle_exit
        self._idle_since_ns = monotonic_ns()
        self._clients: dict[int, Client] = {}
        self._running = True
        self._selector = selectors.DefaultSelector()
        self._listener = _listen(directory / "agent.sock")
        self._announcements = _listen(directory / "rings.sock")
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._announcements, selectors.EVENT_READ, self._accept_regions)
        self._selector.register(recorder.events_fd, selectors.EVENT_READ, lambda: None)

    def stop(self) -> None:
        """Ends the loop after what it is doing; for signal handlers."""
        self._running = False

    def run(self) -> None:
        while self._running:
            busy = _DRAIN_AGAIN_S if self._recorder.rings_fill else DRAIN_EVERY_S
            timeout = busy if self._recorder.sessions else 1.0
            for key, _ in self._selector.select(timeout):
                key.data()
            if self._recorder.sessions:
                self._recorder.drain()
                self._report()
                self._idle_since_ns = monotonic_ns()
            elif self._idle_exit and not self._clients and monotonic_ns() - self._idle_since_ns > _IDLE_EXIT_NS:
                break
        self._shut_down()

    def _shut_down(self) -> None:
        for client in list(self._clients.values()):
            if client.session:
                client.session.reason = "the agent was stopped"
                self._finish(client)
        for name in ("agent.sock", "rings.sock"):
            (self._directory / name).unlink(missing_ok=True)

    # ---- clients ----

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.setblocking(False)
        client = Client(connection)
        self._clients[connection.fileno()] = client
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._serve(client))

    def _drop(self, client: Client) -> None:
        if client.session:
            self._recorder.abandon(client.session)
            client.session = None
        if self._clients.pop(client.socket.fileno(), None):
            self._selector.unregister(client.socket)
            client.socket.close()

    def _serve(self, client: Client) -> None:
        fds: list[int] = []
        try:
            received = client.receive()
            if received is None:
                self._drop(client)
                return
            message, fds = received
            answer = self._answer(client, message, fds) if message else None
        except AgentError as error:
            answer = error.message()
        except Exception as error:  # a fault of ours ends this request, not the other sessions
            traceback.print_exc()
            answer = AgentError("internal error", repr(error), "report it with the agent's log").message()
        finally:
            _close_all(fds)
        if answer and not client.send(answer):
            self._drop(client)

    def _answer(self, client: Client, message: dict[str, Any], fds: list[int]) -> dict[str, Any] | None:
        match message.get("op"):
            case "status":
                return self._status()
            case "record":
                return self._record(client, message, fds)
            case "finish" if client.session:
                self._finish(client)
                return None
            case "stop" if client.uid == 0:
                self.stop()
                return {"ok": True}
            case "stop":
                raise AgentError("may not stop the agent", "you are not root", "use sudo")
            case other:
                raise AgentError(
                    "bad request", f"op {other!r} is unknown, or not possible now", "see ARCHITECTURE.md", code=2
                )

    def _status(self) -> dict[str, Any]:
        with open("/proc/self/statm", encoding="ascii") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        sessions = [
            {
                "session": s.bit,
                "uid": s.uid,
                "processes": len(s.alive),
                "rate_hz": s.request.rate_hz,
                "start_ns": s.start_ns,
            }
            for s in self._recorder.sessions.values()
        ]
        return {
            "ok": True,
            "pid": os.getpid(),
            "version": lib.PLN_VERSION,
            "sessions": sessions,
            "rss_bytes": resident,
            "cpu_ns": time.process_time_ns(),
        }

    def _record(self, client: Client, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        if client.session:
            raise AgentError("cannot record", "this connection records already", "open another", code=2)
        if len(fds) != 1 or not stat.S_ISREG(os.fstat(fds[0]).st_mode):
            raise AgentError(
                "bad request", "one descriptor of a regular file must come along", "send the spool's", code=2
            )
        request = Request.parse(message, client.pid)
        if request.all and client.uid != 0:
            raise AgentError("may not record all processes", "you are not root", "use sudo, or -p for your own")
        session = self._recorder.start(request, os.dup(fds[0]), client.uid)
        client.session = session
        client.told_ns = monotonic_ns()
        return {"ok": True, "session": session.bit, "start_ns": session.start_ns}

    def _finish(self, client: Client) -> None:
        session = client.session
        assert session
        self._receive_waiting_regions()  # what was announced before the request belongs to the session
        self._recorder.finish(session)
        client.session = None
        message: dict[str, Any] = {
            "event": "done",
            "reason": session.reason,
            **self._totals(session),
            "losses": session.losses_by_kind(),
            "cost": session.cost(),
        }
        if session.spool.error:
            message = session.spool.error.message() | {"event": "error"}
        session.close()
        client.send_last(message)
        self._drop(client)

    def _totals(self, session: Session) -> dict[str, int]:
        return {
            "samples": int(session.native.sample_count),
            "waits": int(session.native.wait_count),
            "ranges": self._recorder.ranges(session),
        }

    def _report(self) -> None:
        now = monotonic_ns()
        for client in list(self._clients.values()):
            session = client.session
            if not session:
                continue
            if session.spool.error:
                self._finish(client)
            elif now - client.told_ns >= _PROGRESS_EVERY_NS or not session.alive:
                if not session.alive and client.told_ns == -1:
                    continue
                client.told_ns = now if session.alive else -1
                progress = {
                    "event": "progress",
                    **self._totals(session),
                    "lost": self._recorder.lost(session),
                    "processes": len(self._recorder.processes),
                    "alive": len(session.alive),
                }
                if not client.send(progress):
                    self._drop(client)

    # ---- regions ----

    def _accept_regions(self) -> None:
        """Each announcement is a connection with one message, which may outlive its process."""
        while True:
            try:
                connection, _ = self._announcements.accept()
            except OSError:
                return
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ, partial(self._receive_region, connection))

    def _receive_region(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        with connection:
            pid, _ = _peer(connection)
            try:
                data, fds, _, _ = socket.recv_fds(connection, 64, 4)
            except OSError:
                return
            if len(fds) == 1 and data[:8] == lib.PLN_MAGIC.to_bytes(8, "little"):
                self._recorder.announce(pid, fds[0])
            _close_all(fds)

    def _receive_waiting_regions(self) -> None:
        """All announcements that have been made by now."""
        self._accept_regions()
        for key, _ in self._selector.select(0):
            if isinstance(key.data, partial):
                key.data()


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Pid and uid of who connected, from the kernel."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, uid


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def _listen(path: Path) -> socket.socket:
    """A bound socket that everybody may reach; what they may do is decided by their uid."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if _answers(path):
            raise AgentError("cannot start", f"an agent listens on {path}", "stop it with `pillion agent stop`")
        path.unlink(missing_ok=True)  # a dead agent's
        listener.bind(str(path))
        path.chmod(0o666)
        listener.listen(_BACKLOG)
    except OSError as error:
        raise AgentError("cannot start", f"{path}: {error.strerror}", "run the agent as root", code=3) from error
    return listener


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        return probe.connect_ex(str(path)) == 0
