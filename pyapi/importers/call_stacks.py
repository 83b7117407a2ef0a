"""Call stacks that a trace writes as text, ``file(line): function`` innermost first, joined by semicolons."""

from __future__ import annotations

import re

import numpy as np

from pillion._tables import Array, Tables, from_rows

_ENTRY = re.compile(r"(.*)\((\d{1,9})\): (.*)", re.DOTALL)


def call_stacks(numbers: Array, texts: list[str]) -> tuple[Tables, Array]:
    """The tables ``frames`` and ``stacks``, and the row of each event's stack.

    Args:
        numbers: index of the text of each event's stack, 0 for none.
    """
    frames: dict[str, int] = {}
    stacks: list[tuple[int, list[int]]] = [(0, [])]
    row = np.zeros(len(texts), np.int64)
    for number in np.flatnonzero(np.bincount(numbers, minlength=len(texts))).tolist():
        entries = [entry for entry in texts[number].split(";") if entry]
        if entries:
            row[number] = len(stacks)
            stacks.append((len(stacks), [frames.setdefault(entry, len(frames)) for entry in entries]))
    rows = [(number, "python", *_parts(entry), "") for entry, number in frames.items()]
    return {"frames": from_rows("frames", rows), "stacks": from_rows("stacks", stacks)}, row[numbers]


def _parts(entry: str) -> tuple[str, str, int]:
    """Name, file and line of an entry; all of it is the name where it is none of torch's."""
    found = _ENTRY.fullmatch(entry)
    return (found[3], found[1], int(found[2])) if found else (entry, "", 0)
