"""The client's end of the agent's socket: one JSON object per message, the spool's descriptor with the request.

ARCHITECTURE.md ("Socket") is the protocol. An answer that refuses and a message that ends the session become the
exception with the agent's own words; a connection that closes unasked becomes ``AgentLost``.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from pillion._errors import PillionError, Unavailable, UsageError
from pillion._probes import ProbeChoice, opened

MESSAGE_BYTES_MAX = 64 * 1024
ANSWER_TIMEOUT_S = 10.0
# The agent compiles and attaches its eBPF programs before it answers a request to record: seconds, more on a busy CPU.
RECORD_TIMEOUT_S = 120.0
# After "finish" it drains, resolves what is left and writes; a full disk or a stopped agent must not hang a job.
FINISH_TIMEOUT_S = 120.0


class AgentLost(PillionError):
    """The agent closed the connection, or no longer answers, in the middle of a session."""


def socket_directory() -> Path:
    """Where the agent's sockets are: ``$PILLION_SOCKET``, by default /run/pillion."""
    return Path(os.environ.get("PILLION_SOCKET") or "/run/pillion").absolute()


@dataclass(frozen=True)
class RecordRequest:
    """What to record; the defaults record nothing.

    Attributes:
        pids: processes, as the client sees them.
        own_process: the process of the client.
        machine: every process (root only).
        follow: also what they fork from now on.
        rate_hz: samples per second and CPU; 0 for none.
        wait_threshold_ns: shorter waits are summed up, not recorded one by one.
        transport: "rings" (shared memory) or "usdt" (probes).
        probes: of other programs and libraries, to record as marks and ranges.
        launch_stacks: take a stack at every call that launches work of a device.
    """

    pids: tuple[int, ...] = ()
    own_process: bool = False
    machine: bool = False
    follow: bool = False
    rate_hz: int = 99
    wait_threshold_ns: int = 100_000
    transport: str = "rings"
    probes: tuple[ProbeChoice, ...] = ()
    launch_stacks: bool = False

    def message(self) -> dict[str, Any]:
        """Without the probes: what names them goes with descriptors."""
        return {
            "op": "record",
            "pids": list(self.pids),
            "self": self.own_process,
            "all": self.machine,
            "follow": self.follow,
            "rate_hz": self.rate_hz,
            "wait_threshold_ns": self.wait_threshold_ns,
            "transport": self.transport,
            **({"launch_stacks": True} if self.launch_stacks else {}),
        }


@dataclass(frozen=True)
class Progress:
    """Counts since the session began; ``alive`` is how many recorded processes still run."""

    samples: int
    waits: int
    ranges: int
    lost: int
    processes: int
    alive: int


@dataclass(frozen=True)
class Done:
    """How a session ended: why, how much, what was lost by kind, what it cost."""

    reason: str
    samples: int
    waits: int
    ranges: int
    losses: Mapping[str, int] = field(default_factory=dict)
    cost: Mapping[str, int] = field(default_factory=dict)


class AgentClient:
    """A connection to the agent; it carries one request, and a session ends with it.

    Raises:
        Unavailable: no agent listens there, or its socket may not be used.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._path = (directory or socket_directory()) / "agent.sock"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(ANSWER_TIMEOUT_S)
        try:
            self._socket.connect(str(self._path))
        except OSError as error:
            self._socket.close()
            raise _no_agent(self._path, error) from error

    def __enter__(self) -> AgentClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; a session that still runs ends, what it recorded is in the spool."""
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def status(self) -> dict[str, Any]:
        """The agent's pid, version, sessions, rss_bytes and cpu_ns."""
        return self._ask({"op": "status"}, ANSWER_TIMEOUT_S)

    def stop_agent(self) -> None:
        """Ends the agent and its sessions (root)."""
        self._ask({"op": "stop"}, ANSWER_TIMEOUT_S)
        # It closes its end when it exits: from there on its socket is gone and another agent can start.
        with contextlib.suppress(AgentLost):
            self._receive(ANSWER_TIMEOUT_S)

    def record(self, request: RecordRequest, spool_fd: int) -> int:
        """Begins a session that appends to ``spool_fd``; returns its start_ns once everything is attached.

        Raises:
            PillionError: the agent's refusal, with its exit code.
            AgentLost: it went away instead of answering.
        """
        with opened(request.probes) as (probes, files):
            message = request.message() | ({"probes": probes} if probes else {})
            answer = self._ask(message, RECORD_TIMEOUT_S, [spool_fd, *files])
        return int(answer.get("start_ns", 0))

    def next_event(self, timeout_s: float | None) -> Progress | Done | None:
        """The next message of the session, None when none came in time (None: waits without limit).

        Raises:
            PillionError: the agent ended the session, in its words.
            AgentLost: the connection closed.
        """
        if not select.select([self._socket], [], [], timeout_s)[0]:
            return None
        message = self._receive(ANSWER_TIMEOUT_S)
        kind = message.get("event")
        if kind == "progress":
            return Progress(**{name: int(message.get(name, 0)) for name in Progress.__dataclass_fields__})
        if kind == "done":
            counts = {name: int(message.get(name, 0)) for name in ("samples", "waits", "ranges")}
            return Done(
                reason=str(message.get("reason", "")),
                losses=message.get("losses") or {},
                cost=message.get("cost") or {},
                **counts,
            )
        raise refusal(message)

    def finish(self) -> Done:
        """Ends the session after a last drain.

        Raises:
            PillionError, AgentLost: as ``next_event``; what was recorded before is in the spool.
        """
        # A session that ended already takes no more words, but its last ones are there to be read.
        with contextlib.suppress(AgentLost):
            self._send({"op": "finish"})
        while True:
            event = self.next_event(FINISH_TIMEOUT_S)
            if event is None:
                raise AgentLost(
                    "the agent does not end the session",
                    f"no answer within {FINISH_TIMEOUT_S:.0f} s",
                    "`pillion agent status` shows whether it lives",
                )
            if isinstance(event, Done):
                return event

    def _ask(self, message: dict[str, Any], timeout_s: float, descriptors: Sequence[int] = ()) -> dict[str, Any]:
        # An agent that refuses the connection has said why before it closed it.
        with contextlib.suppress(AgentLost):
            self._send(message, descriptors)
        answer = self._receive(timeout_s)
        if answer.get("ok") is not True:
            raise refusal(answer)
        return answer

    def _send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        data = json.dumps(message).encode()
        if len(data) > MESSAGE_BYTES_MAX:
            raise UsageError("the request is too long", "it names too many processes", "record the machine with -a")
        try:
            socket.send_fds(self._socket, [data], descriptors)
        except OSError as error:
            raise _lost(error) from error

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        self._socket.settimeout(timeout_s)
        try:
            try:
                data = self._socket.recv(MESSAGE_BYTES_MAX)
            except ConnectionResetError:  # reported once, before the messages that came first
                data = self._socket.recv(MESSAGE_BYTES_MAX)
        except OSError as error:
            raise _lost(error) from error
        if not data:
            raise _lost(None)
        try:
            message = json.loads(data)
        except ValueError as error:
            raise _unintelligible() from error
        if not isinstance(message, dict):
            raise _unintelligible()
        return message


def agent_runs(directory: Path | None = None) -> bool:
    """Whether an agent accepts connections there."""
    try:
        AgentClient(directory).close()
    except Unavailable:
        return False
    return True


def refusal(answer: Mapping[str, Any]) -> PillionError:
    """The exception for an answer of the agent that refuses, in the agent's words and with its exit code."""
    if "error" not in answer:
        return _unintelligible()
    message, cause, fix = (str(answer.get(key) or "") for key in ("error", "cause", "fix"))
    code = answer.get("code", 1)
    if code == Unavailable.exit_code:
        return Unavailable(f"{message}: {cause}" if cause else message, fix)
    if code == UsageError.exit_code:
        return UsageError(message, cause, fix)
    return PillionError(message, cause, fix)


def _no_agent(path: Path, error: OSError) -> Unavailable:
    if error.errno in (errno.EACCES, errno.EPERM):
        return Unavailable(f"the agent's socket may not be used: {path}: {error.strerror}", "run as root")
    return Unavailable(f"no agent runs: {path}: {error.strerror or error}", "`sudo pillion agent start`")


def _lost(error: OSError | None) -> AgentLost:
    if isinstance(error, TimeoutError):
        return AgentLost("the agent does not answer", "it is busy or stopped", "`sudo pillion agent stop`, then again")
    cause = "it was killed or it crashed; its log is agent.log beside its socket"
    return AgentLost("the agent ended in the middle", cause, "a new one starts with the next `pillion record`")


def _unintelligible() -> PillionError:
    return PillionError(
        "the agent's answer makes no sense",
        "client and agent are of different versions",
        "`sudo pillion agent stop`, then again",
    )
