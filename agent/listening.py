"""The two sockets that the world may reach, and the lock that lets one agent have them."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

from pillion_agent.errors import AgentError

BACKLOG = 4096  # the kernel's own bound (net.core.somaxconn); a fork storm's regions wait here


def lock(directory: Path) -> int:
    """Makes the folder and takes it; of two agents that start at once, one gets it.

    The kernel lets go of the lock when the agent ends, however it ends.

    Raises:
        AgentError: an agent has it, or it cannot be used.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        fd = os.open(directory / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _unusable(directory, error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        cause = f"an agent listens on {directory / 'agent.sock'}"
        raise AgentError("cannot start", cause, "stop it with `pillion agent stop`") from error
    return fd


def listen(path: Path) -> socket.socket:
    """A bound socket that everybody may reach; what they may do is decided by their uid.

    Raises:
        AgentError: the path cannot be used.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        path.unlink(missing_ok=True)  # a dead agent's
        listener.bind(str(path))
        path.chmod(0o666)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise _unusable(path, error) from error
    return listener


def _unusable(path: Path, error: OSError) -> AgentError:
    fix = "run the agent as root, and set PILLION_SOCKET to a folder of root"
    return AgentError("cannot start", f"{path}: {error.strerror or error}", fix, code=3)
