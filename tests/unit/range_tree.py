"""Random trees of ranges, and the slow and direct way to say what they must give."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from spool_writer import SpoolWriter


@dataclass(frozen=True)
class Range:
    """One range of a thread; ``parent`` is an index into the list of its thread."""

    tid: int
    name: str
    start_ns: int
    end_ns: int
    parent: int | None
    depth: int


def _thread(tid: int, moves: list[tuple[bool, str, int]]) -> list[Range]:
    """Ranges that a thread makes when it opens (True) and closes ranges, with a step of time before each move."""
    now, open_ranges, made = 1_000, [], []
    for opens, name, step_ns in [*moves, *[(False, "", 1)] * len(moves)]:
        now += step_ns
        if opens:
            parent = open_ranges[-1] if open_ranges else None
            made.append(Range(tid, name, now, -1, parent, len(open_ranges)))
            open_ranges.append(len(made) - 1)
        elif open_ranges:
            index = open_ranges.pop()
            opened = made[index]
            made[index] = Range(tid, opened.name, opened.start_ns, now, opened.parent, opened.depth)
    return made


_moves = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["a", "b", "ProfilerStep#1", "ProfilerStep#2"]), st.integers(1, 50)),
    max_size=40,
)


@st.composite
def threads(draw: st.DrawFn) -> list[list[Range]]:
    """The ranges of one to three threads, each in the order in which they began."""
    return [_thread(tid, draw(_moves)) for tid in range(100, 100 + draw(st.integers(1, 3)))]


def spool_of(all_threads: list[list[Range]]) -> SpoolWriter:
    """A spool with the ranges in the order in which they end, as rings hold them."""
    writer = SpoolWriter()
    writer.region(1, 41)
    for ranges in all_threads:
        for seq, made in sorted(enumerate(ranges, start=1), key=lambda item: item[1].end_ns):
            parent = 0 if made.parent is None else made.parent + 1
            writer.record(1, made.tid, made.name, made.start_ns, made.end_ns, seq=seq, parent=parent, depth=made.depth)
    return writer
