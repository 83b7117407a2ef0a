"""The names and stacks of a trace of torch among those of a recording."""

from __future__ import annotations

import re

import numpy as np

from pillion._tables import Array, Columns, Ragged, Tables, length, text_column

_ENTRY = re.compile(r"(?P<file>.+?)\((?P<line>\d+)\): (?P<name>.*)", re.DOTALL)


class AppendedTexts:
    """The texts of tables and of a trace as one list; ``rows[code]`` is where a text of the trace is now."""

    def __init__(self, texts: list[str], added: list[str]) -> None:
        known = {text: row for row, text in enumerate(texts)}
        self.rows = np.array([known.setdefault(text, len(known)) for text in added], np.int32)
        self.all = list(known) if len(known) > len(texts) or len(set(texts)) == len(texts) else texts


def append_stacks(tables: Tables, added: list[tuple[str, ...]]) -> tuple[Tables, Array]:
    """The tables of stacks and frames with a trace's, and the row of each of its stacks."""
    stacks, frames = tables["stacks"], tables["frames"]
    if len(added) < 2:
        return {}, np.zeros(len(added), np.int64)
    known: dict[str, int] = {}
    lists = [[known.setdefault(entry, len(known)) for entry in entries] for entries in added[1:]]
    begin, offsets = length(frames), stacks["frames"].offsets
    values = np.fromiter((begin + frame for frame_list in lists for frame in frame_list), np.int32)
    ends = np.cumsum([len(frame_list) for frame_list in lists]) + offsets[-1]
    ragged = Ragged(np.concatenate([offsets, ends]).astype(np.int32), np.concatenate([stacks["frames"].values, values]))
    files, lines, names = zip(*map(_frame, known))
    more: Columns = {
        "id": np.arange(begin, begin + len(known)),
        "kind": text_column(["python"] * len(known)),
        "name": text_column(names),
        "file": text_column(files),
        "line": np.array(lines, np.int32),
        "module": text_column([""] * len(known)),
    }
    merged = {name: np.concatenate([frames[name], values]) for name, values in more.items()}
    rows = np.concatenate([[0], length(stacks) + np.arange(len(lists))])
    return {"frames": merged, "stacks": {"id": np.arange(len(ragged)), "frames": ragged}}, rows


def _frame(entry: str) -> tuple[str, int, str]:
    """File, line and function of ``file(line): function``; any other text is a name without a place."""
    match = _ENTRY.fullmatch(entry)
    if match is None or int(match["line"]) >= 1 << 31:
        return "", 0, entry
    return match["file"], int(match["line"]), match["name"]
