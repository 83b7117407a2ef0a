"""Threads of other tools' profiles as pids and tids of 32 bits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pillion._tables import Array, Columns, from_rows
from pillion.importers.distinct import distinct

_U32 = 0xFFFF_FFFF


class Threads(NamedTuple):
    """What thread each row is of.

    Attributes:
        pid, tid: u4, by row.
        names: (pid, tid) to the name that a thread has where it has no number.
    """

    pid: Array
    tid: Array
    names: dict[tuple[int, int], str]

    @classmethod
    def number(cls, pid: Array, tid: Array, pid_text: Array, tid_text: Array, texts: list[str]) -> Threads:
        """Number the threads.

        Numbers that do not fit, as a pthread's handle, keep their low bits, those below 0 as process ids are 0: no
        process, and so is a process that is named. A thread that is named gets a number that is free.

        Args:
            pid, tid: int64.
            pid_text, tid_text: masks of the rows that have the number of a text instead.
        """
        # Most rows follow one of their thread, so the threads are looked for among the few that do not.
        columns = (pid, tid, pid_text, tid_text)
        changes = np.ones(len(pid), bool)
        changes[1:] = False
        for column in columns:
            changes[1:] |= column[1:] != column[:-1]
        begins = np.flatnonzero(changes)
        place, which = distinct(*(column[begins] for column in columns))
        found = np.stack([column[begins[place]] for column in columns], axis=1)
        numbers, names = _numbers(found.tolist(), texts)
        of_run, lengths = numbers[which], np.diff(begins, append=len(pid))
        return cls(np.repeat(of_run[:, 0], lengths), np.repeat(of_run[:, 1], lengths), names)


def _numbers(found: list[list[int]], texts: list[str]) -> tuple[Array, dict[tuple[int, int], str]]:
    numbers = np.zeros((len(found), 2), np.uint32)
    names: dict[tuple[int, int], str] = {}
    used: set[tuple[int, int]] = set()
    free: dict[int, int] = {}  # pid to the number from which on one is looked for
    # Those whose numbers fit come first and keep them.
    for place in sorted(range(len(found)), key=lambda place: (found[place][3], not 0 <= found[place][1] <= _U32)):
        pid, tid, pid_text, tid_text = found[place]
        pid = pid & _U32 if pid >= 0 and not pid_text else 0
        name = " ".join(texts[row] for row, is_text in ((found[place][0], pid_text), (tid, tid_text)) if is_text)
        tid = tid & _U32
        if tid_text or (pid, tid) in used:
            tid = free.get(pid, 1)
            while (pid, tid) in used:
                tid += 1
            free[pid] = tid + 1
        used.add((pid, tid))
        numbers[place] = pid, tid
        if name:
            names[pid, tid] = name
    return numbers, names


def threads_table(names: dict[tuple[int, int], str]) -> Columns:
    """The table ``threads``: nobody has measured when they ran."""
    return from_rows("threads", [(*thread, names[thread], *(-1,) * 6) for thread in sorted(names)])


def processes_table(names: dict[int, str]) -> Columns:
    """The table ``processes``."""
    rows = [(pid, 0, -1, 0, -1, name, None, None, None) for pid, name in sorted(names.items())]
    return from_rows("processes", rows)
