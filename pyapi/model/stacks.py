"""Stacks and shapes of events as torch gives them; the stacks of backward operators, which have none of their own."""

from __future__ import annotations

import json
from typing import Any

from pillion._tables import Array, Tables


def backward_stacks(stack: Array, behind: Array, sequence: Array, thread: Array, forward_thread: Array) -> Array:
    """The stack of each event; backward events get that of the first forward event with their sequence number.

    Args:
        stack: row of stacks of each event.
        behind: the event that runs backward, which the event is or lies in; −1 for a forward event.
        sequence, thread, forward_thread: of each event.
    """
    forward, backward = behind < 0, behind[behind >= 0]
    first: dict[tuple[int, int], int] = {}
    keys = zip(sequence[forward].tolist(), thread[forward].tolist())
    for key, row in zip(keys, stack[forward].tolist()):
        first.setdefault(key, row)
    stacks = stack.copy()
    keys = zip(sequence[backward].tolist(), forward_thread[backward].tolist())
    stacks[~forward] = [first.get(key, 0) for key in keys]
    return stacks


class StackTexts:
    """Rows of stacks to their entries, innermost first, ``file(line): function``; each is made once."""

    def __init__(self, tables: Tables) -> None:
        self._stacks = tables["stacks"]["frames"]
        self._frames = tables["frames"]
        self._known: dict[int, list[str]] = {0: []}

    def __getitem__(self, row: int) -> list[str]:
        if row not in self._known:
            self._known[row] = [self._entry(frame) for frame in self._stacks[row].tolist()]
        return self._known[row]

    def _entry(self, frame: int) -> str:
        file, line, name = (self._frames[column][frame] for column in ("file", "line", "name"))
        return f"{file}({line}): {name}" if file else str(name)


class ShapeValues:
    """Rows of strings to the input shapes that they spell; each is read once. Other tools' may spell none: a text."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts
        self._known: dict[int, Any] = {0: []}

    def __getitem__(self, row: int) -> Any:
        if row not in self._known:
            self._known[row] = _decoded(self._texts[row])
        return self._known[row]


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
