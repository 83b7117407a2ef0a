"""Whom a process belongs to, and so who may record it."""

from __future__ import annotations

import os

from pillion_agent.errors import AgentError


class NotAllowed(AgentError):
    """The process is not this user's to look at."""


def allow(uid: int, pid: int) -> None:
    """Refuses another user's process, and one with privileges that the user has not.

    Raises:
        NotAllowed: with the reason.
        OSError: there is no such process.
    """
    if uid == 0:
        return
    if {*_user_ids(pid)} != {uid}:
        raise _refusal(pid, "it belongs to another user")
    # The kernel gives root the files of a process that must not be inspected: a program with the set-group-ID bit or
    # with capabilities, one that said so itself (prctl PR_SET_DUMPABLE).
    if os.stat(f"/proc/{pid}/stat").st_uid != uid:
        raise _refusal(pid, "it has privileges of its own, or hides from its user")


def _user_ids(pid: int) -> list[int]:
    """Real, effective, saved and filesystem user id."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        line = next(line for line in file if line.startswith("Uid:"))
    return [int(text) for text in line.split()[1:]]


def _refusal(pid: int, cause: str) -> NotAllowed:
    return NotAllowed(f"may not record process {pid}", cause, "record it as root")
