"""One client's connection: messages in, messages out, and who it is."""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any

from pillion_agent.errors import AgentError
from pillion_agent.session import Session

MAX_MESSAGE = 65536
_MAX_DESCRIPTORS = 1 + 64  # the spool, and a file for each pattern of probes
_CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid
_SO_SNDBUFFORCE = 32  # include/uapi/asm-generic/socket.h; Python's socket module has no name for it


class Client:
    """One connection; at most one session."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.pid, self.uid = peer(connection)
        self.session: Session | None = None
        self.told_ns = 0

    def receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """A message and its descriptors; None when the client has gone.

        Raises:
            AgentError: the bytes are no message.
            BlockingIOError: there is none.
        """
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, MAX_MESSAGE, _MAX_DESCRIPTORS)
        except BlockingIOError:
            raise
        except OSError:
            return None
        if not data:
            close_all(fds)
            return None
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            close_all(fds)
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
        """Makes room where the buffer is full of what the client has not read: it asked for this one."""
        room_bytes = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, room_bytes + MAX_MESSAGE)
        self.send(message)


def peer(connection: socket.socket) -> tuple[int, int]:
    """Pid and uid of who connected, from the kernel."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(raw)
    return pid, uid


def close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
