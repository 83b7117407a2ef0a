"""The agent's loop: clients on a Unix socket, regions announced by jobs, eBPF events, a timer.

One thread and no callbacks across modules: whatever is ready is handled, then everything is drained.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import socket
import stat
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from pillion._native import lib
from pillion_agent.connection import Client, close_all, peer
from pillion_agent.errors import AgentError
from pillion_agent.listening import BACKLOG, listen, lock
from pillion_agent.recorder import Recorder
from pillion_agent.session import Request, Session, monotonic_ns

# Python's fastest loop of ranges fills a ring in 38 ms; the eBPF buffer wakes us earlier by itself.
DRAIN_EVERY_S = 0.025
_DRAIN_AGAIN_S = 0.002  # when a ring was a quarter full: there is a burst
_PROGRESS_EVERY_NS = 500_000_000
_IDLE_EXIT_NS = 5_000_000_000
# Nobody but root may take what the others need: descriptors, and the time between two drains.
_MAX_CONNECTIONS = 64  # of one user
_MAX_SILENT = 256  # connections that have not announced their region yet
_AT_ONCE = 64  # connections between two drains


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
        self._silent: dict[socket.socket, None] = {}  # in the order in which they came
        self._running = True
        self._selector = selectors.DefaultSelector()
        self._lock = lock(directory)
        self._listener = listen(directory / "agent.sock")
        self._announcements = listen(directory / "rings.sock")
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._announcements, selectors.EVENT_READ, self._receive_regions)
        self._selector.register(recorder.events_fd, selectors.EVENT_READ, lambda: None)

    def stop(self) -> None:
        """Ends the loop after what it is doing; for signal handlers."""
        self._running = False

    def run(self) -> None:
        while self._running:
            busy = _DRAIN_AGAIN_S if self._recorder.rings_fill else DRAIN_EVERY_S
            timeout = busy if self._recorder.sessions else 1.0
            for key, _ in self._selector.select(timeout):
                if self._selector.get_map().get(key.fd) is key:  # not closed by what came before
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
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # none is left, or there is no descriptor for it
            connection.setblocking(False)
            self._welcome(Client(connection))

    def _welcome(self, client: Client) -> None:
        if client.uid != 0 and sum(client.uid == other.uid for other in self._clients.values()) >= _MAX_CONNECTIONS:
            cause = f"user {client.uid} has {_MAX_CONNECTIONS} already"
            client.send(AgentError("too many connections", cause, "close some").message())
            client.socket.close()
            return
        self._clients[client.socket.fileno()] = client
        self._selector.register(client.socket, selectors.EVENT_READ, partial(self._serve, client))

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
            answer = self._answer(client, message, fds)
        except BlockingIOError:
            return
        except AgentError as error:
            answer = error.message()
        except Exception as error:  # a fault of ours ends this request, not the other sessions
            traceback.print_exc()
            answer = AgentError("internal error", repr(error), "report it with the agent's log").message()
        finally:
            close_all(fds)
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
                cause = f"op {str(other)[:40]!r} is unknown, or not possible now"
                raise AgentError("bad request", cause, "see ARCHITECTURE.md", code=2)

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
        if not fds or not _is_open_file(fds[0], os.O_WRONLY):
            cause = "one descriptor of a regular file, open for writing, must come along"
            raise AgentError("bad request", cause, "send the spool's", code=2)
        if not all(_is_open_file(fd, os.O_RDONLY) for fd in fds[1:]):
            cause = "a file with probes is a regular file, open for reading"
            raise AgentError("bad request", cause, "send such a descriptor", code=2)
        request = Request.parse(message, client.pid, len(fds) - 1)
        if request.all and client.uid != 0:
            raise AgentError("may not record all processes", "you are not root", "use sudo, or -p for your own")
        session = self._recorder.start(request, fds[0], client.uid, fds[1:])
        client.session = session
        client.told_ns = monotonic_ns()
        return {"ok": True, "session": session.bit, "start_ns": session.start_ns}

    def _finish(self, client: Client) -> None:
        session = client.session
        assert session
        self._receive_regions(BACKLOG)  # what was announced before the request belongs to the session
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

    def _receive_regions(self, at_once: int = _AT_ONCE) -> None:
        """Each announcement is a connection with one message, which may outlive its process."""
        for connection in list(self._silent):
            self._receive_region(connection)
        for _ in range(at_once):
            try:
                connection, _ = self._announcements.accept()
            except OSError:
                return
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ, partial(self._receive_region, connection))
            self._silent[connection] = None
            self._receive_region(connection)
            if len(self._silent) > _MAX_SILENT:
                self._hang_up(next(iter(self._silent)))

    def _receive_region(self, connection: socket.socket) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(connection, 64, 4)
        except BlockingIOError:
            return  # between its connect() and its sendmsg()
        except OSError:
            data, fds = b"", []
        try:
            if len(fds) <= 1 and data[:8] == lib.PLN_MAGIC.to_bytes(8, "little"):
                self._recorder.announce(peer(connection)[0], fds[0] if fds else None)
        finally:
            close_all(fds)
            self._hang_up(connection)

    def _hang_up(self, connection: socket.socket) -> None:
        del self._silent[connection]
        self._selector.unregister(connection)
        connection.close()


def _is_open_file(fd: int, access: int) -> bool:
    """A regular file that whoever sent it may read or write: its descriptor is the proof."""
    mode = fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_PATH)
    return stat.S_ISREG(os.fstat(fd).st_mode) and mode in (access, os.O_RDWR)
