"""Call stacks of traces: as text of each event, as a tree of frames that events refer to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from pillion._tables import Array, Tables, from_rows
from pillion.importers.losses import Losses
from pillion.merge.inventory import integer, text

_ENTRY = re.compile(r"(.*)\((\d{1,9})\): (.*)", re.DOTALL)
_Frame: TypeAlias = tuple[str, str, str, int, str]  # kind, name, file, line, module
_KINDS = ("python", "native", "kernel")
# A trace can say a lot with little: each of many nodes of a long chain may be a stack. Python's own limit is 1,000.
_FRAMES_MAX = 4_096
_FRAMES_OF_ALL_MAX = 50_000_000


class Stacks:
    """Stacks and their frames, each once."""

    def __init__(self) -> None:
        self._frames: dict[_Frame, int] = {}
        self._rows: dict[tuple[int, ...], int] = {(): 0}

    def of_texts(self, numbers: Array, texts: list[str]) -> Array:
        """The row of each event's stack.

        Args:
            numbers: index of the text of each, ``file(line): function`` innermost first, joined by semicolons.
        """
        row = np.zeros(len(texts), np.int64)
        for number in _used(numbers, texts):
            row[number] = self._row(_parts(entry) for entry in texts[number].split(";") if entry)
        return row[numbers]

    def of_nodes(self, numbers: Array, texts: list[str], nodes: Any, losses: Losses) -> Array:
        """The row of each event's stack.

        Args:
            numbers: index of the text that is the key of each stack's innermost node, 0 for none.
            nodes: the member ``stackFrames``: by key ``name``, ``category``, ``parent``; of our own traces also
                ``file``, ``line`` and ``module``, and the category is the kind.
        """
        used = _used(numbers, texts)
        row = np.zeros(len(texts), np.int64)
        row[used] = self.of_keys([texts[number] for number in used], nodes, losses)
        return row[numbers]

    def of_keys(self, keys: list[str], nodes: Any, losses: Losses) -> list[int]:
        """The row of the stack of each of these innermost nodes, as ``of_nodes``."""
        nodes = nodes if isinstance(nodes, dict) else {}
        known: dict[str, _Frame] = {}
        rows: list[int] = []
        unknown, room = 0, _FRAMES_OF_ALL_MAX
        for key in keys:
            frames: list[_Frame] = []
            while len(frames) < min(_FRAMES_MAX, room) and isinstance(node := nodes.get(key), dict):
                if key not in known:
                    known[key] = _frame(node)
                frames.append(known[key])
                key = str(node["parent"]) if node.get("parent") is not None else ""
            unknown += key != ""  # a key that is none, or frames that are too many
            room -= len(frames)
            rows.append(self._row(frames))
        losses.add("stacks", unknown, "stacks with frames that are not in stackFrames, or with too many")
        return rows

    def tables(self) -> Tables:
        """The tables ``frames`` and ``stacks``."""
        frames = [(row, *frame) for frame, row in self._frames.items()]
        return {"frames": from_rows("frames", frames), "stacks": from_rows("stacks", enumerate(self._rows))}

    def _row(self, frames: Iterable[_Frame]) -> int:
        stack = tuple(self._frames.setdefault(frame, len(self._frames)) for frame in frames)
        return self._rows.setdefault(stack, len(self._rows))


def _used(numbers: Array, texts: list[str]) -> list[int]:
    used: list[int] = np.flatnonzero(np.bincount(numbers, minlength=len(texts))[1:]).tolist()
    return [number + 1 for number in used]


def _parts(entry: str) -> _Frame:
    """Name, file and line of an entry; all of it is the name where it is none of torch's."""
    found = _ENTRY.fullmatch(entry)
    return ("python", found[3], found[1], int(found[2]), "") if found else ("python", entry, "", 0, "")


def _frame(node: dict[str, Any]) -> _Frame:
    """A category that is no kind of ours is that of the format: what the code is part of."""
    name, category, file, module = (text(node, key) or "" for key in ("name", "category", "file", "module"))
    is_kind = category in _KINDS
    line = integer(node, "line", high=2**31 - 1)
    return category if is_kind else "native", name, file, line, module if is_kind else category
