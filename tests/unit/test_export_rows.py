"""The columns that exports are made of: the same as row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion._tables import ragged_column
from pillion.export import _json_pieces
from pillion.export._json_pieces import Column, ListBegin, Piece, json_rows, microseconds, picked
from pillion.export._json_pieces import integers as json_integers
from pillion.export._protobuf import integers, messages, text, varint, varints
from pillion.export._rows import chunks, content, joined, words
from pillion.export._stack_tree import stack_tree
from pillion.export._tracks import brackets, lanes

INT64 = st.integers(-(2**63), 2**63 - 1)
SLICES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 8)), max_size=20)


@given(st.lists(INT64, max_size=20))
def test_varints_are_those_of_protobuf(numbers: list[int]) -> None:
    encoder = pytest.importorskip("google.protobuf.internal.encoder", reason="needs protobuf")
    expected = []
    for number in numbers:
        encoder._VarintEncoder()(expected.append, number & (2**64 - 1))
    assert varints(np.array(numbers, np.int64)).to_pylist() == [varint(number) for number in numbers]
    assert bytes(content(varints(np.array(numbers, np.int64)))) == b"".join(expected)


def test_a_column_of_messages_is_the_messages_one_by_one() -> None:
    names = words([text(2, "a"), text(2, ""), text(2, "é" * 100)])
    column = joined(*messages(3, integers(1, np.array([1, 300, -1])), names))
    assert column.to_pylist() == [
        b"\x1a\x05\x08\x01\x12\x01a",
        b"\x1a\x05\x08\xac\x02\x12\x00",
        b"\x1a\xd6\x01" + b"\x08" + b"\xff" * 9 + b"\x01" + b"\x12\xc8\x01" + "é".encode() * 100,
    ]


@given(st.lists(INT64, max_size=20))
def test_microseconds_keep_every_nanosecond(times: list[int]) -> None:
    for time_ns, written in zip(times, written_rows([microseconds(b"", np.array(times, np.int64)), b"\n"], len(times))):
        whole, _, part = written.decode().partition(".")
        assert (abs(int(whole)) * 1000 + int(part)) * (-1 if written.startswith(b"-") else 1) == time_ns


def written_rows(pieces: list[Piece], rows: int) -> list[bytes]:
    return b"".join(bytes(part) for part in json_rows(pieces, rows)).splitlines()


def direct_row(pieces: list[Piece], row: int) -> bytes:
    text, list_at = b"", None
    for piece in pieces:
        before = text
        if isinstance(piece, ListBegin):
            text += piece.text
        elif isinstance(piece, bytes):
            text += piece
        elif piece.silent is None or piece.values[row] != piece.silent:
            value = int(piece.values[row])
            written = str(value).encode() if piece.words is None else piece.words[value].as_py()
            text += piece.before + written + piece.after
        if list_at == len(before) and text[len(before) :].startswith(b","):
            text = before + text[len(before) + 1 :]
        if isinstance(piece, ListBegin):
            list_at = len(text)
    return text


TEXTS = st.sampled_from([b"", b",", b"[", b',"a":', b"{}"])
WORDS = words([b"", b",x", b"word", b"w" * 3_000_000])


@st.composite
def json_columns(draw: st.DrawFn, rows: int) -> Column:
    before, after, silent = draw(TEXTS), draw(TEXTS), draw(st.none() | st.integers(0, 3))
    if draw(st.booleans()):
        places = np.array(draw(st.lists(st.integers(-1, 2), min_size=rows, max_size=rows)), np.int8)
        return picked(WORDS, places, before, silent=-1)
    kind, numbers = draw(
        st.sampled_from([("i8", INT64), ("u8", st.integers(0, 2**64 - 1)), ("u4", st.integers(0, 2**32 - 1))])
    )
    values = draw(st.lists(numbers | st.integers(0, 3), min_size=rows, max_size=rows))
    return json_integers(before, np.array(values, kind), silent, after)


@settings(max_examples=300)
@given(st.data(), st.integers(0, 5), st.integers(1, 300))
def test_rows_of_json_are_their_pieces_one_by_one(data: st.DataObject, rows: int, buffer_bytes: int) -> None:
    some = st.one_of(TEXTS, TEXTS.map(ListBegin), json_columns(rows))
    pieces = data.draw(st.lists(some, max_size=6))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_json_pieces, "_BUFFER_BYTES", buffer_bytes)
        written = written_rows([*pieces, b".\n"], rows)
    assert written == [direct_row(pieces, row) + b"." for row in range(rows)]


def test_rows_of_json_may_be_longer_than_any_buffer() -> None:
    places = np.array([3, 2, 3] * 5)
    rows = written_rows([picked(WORDS, places), b"\n"], len(places))
    assert [len(row) for row in rows] == [3_000_000, 4, 3_000_000] * 5


@given(st.lists(st.integers(0, 200 << 20), max_size=20))
def test_chunks_cover_all_rows_once(sizes: list[int]) -> None:
    parts = list(chunks(np.array(sizes, np.int64)))
    assert [row for part in parts for row in range(part.start, part.stop)] == list(range(len(sizes)))
    assert all(sum(sizes[part]) <= 64 << 20 or part.stop - part.start == 1 for part in parts)


@settings(max_examples=300)
@given(SLICES)
def test_slices_of_a_lane_nest_and_close_in_order(slices: list[tuple[int, int, int]]) -> None:
    track, start, duration = (
        (np.array(column, np.int64) for column in zip(*slices)) if slices else np.zeros((3, 0), int)
    )
    end = start + duration
    lane = lanes(track, start, end)
    on = track * 100 + lane
    points, is_end = brackets(on, start, end)
    assert len(points) == 2 * len(slices)
    opened: list[int] = []
    last = (-1, 0)
    for row, closes in zip(points.tolist(), is_end.tolist()):
        moment = (int(on[row]), int(end[row] if closes else start[row]))
        assert last <= moment
        last = moment
        if closes:
            assert opened.pop() == row
        else:
            assert not opened or on[opened[-1]] == on[row]
            opened.append(row)
    assert not opened


def test_what_nests_stays_in_one_lane() -> None:
    start, end = np.array([0, 0, 0, 5, 5, 9]), np.array([10, 5, 0, 9, 5, 10])
    assert lanes(np.zeros(6, int), start, end).tolist() == [0] * 6
    assert lanes(np.zeros(3, int), np.array([0, 1, 2]), np.array([3, 4, 5])).tolist() == [0, 1, 2]
    # The lanes beside the first are taken again as soon as they are free.
    assert lanes(np.zeros(4, int), np.array([0, 1, 5, 6]), np.array([2, 4, 7, 8])).tolist() == [0, 1, 0, 1]


@given(st.lists(st.lists(st.integers(0, 3), max_size=5), max_size=10))
def test_a_tree_of_stacks_gives_each_stack_back(stacks: list[list[int]]) -> None:
    tree = stack_tree(ragged_column(stacks))
    for stack, leaf in zip(stacks, tree.leaf.tolist()):
        found = []
        while leaf >= 0:
            found.append(int(tree.frame[leaf]))
            assert tree.parent[leaf] < leaf
            leaf = int(tree.parent[leaf])
        assert found == stack
    assert len(set(zip(tree.parent.tolist(), tree.frame.tolist()))) == len(tree.frame)
