"""Columns of byte strings that are joined row by row.

So a million rows become JSON or protobuf without a loop in Python: pieces are looked up in dictionaries of ready-made
bytes, numbers are turned into digits or varints by column, and Arrow joins what belongs to one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pillion._tables import Array
from pillion.export._json_pieces import Column, picked

if TYPE_CHECKING:
    Piece: TypeAlias = "pa.LargeBinaryArray | bytes"
    """What a row may be made of: a column, or bytes that every row has."""

_BINARY = pa.large_binary()
_CHUNK_ROWS = 65_536
_CHUNK_BYTES = 64 << 20


def words(texts: Iterable[bytes]) -> pa.LargeBinaryArray:
    """A column of these byte strings."""
    return pa.array(texts if isinstance(texts, list) else list(texts), _BINARY)


def from_parts(data: Array, sizes: Array) -> pa.LargeBinaryArray:
    """A column of consecutive parts of ``data`` (uint8)."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return pa.Array.from_buffers(_BINARY, len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def pick(dictionary: pa.LargeBinaryArray, rows: Array) -> pa.LargeBinaryArray:
    """The entries of a dictionary at these places."""
    return dictionary.take(pa.array(rows))


def only(mask: Array, column: Piece) -> pa.LargeBinaryArray:
    """The column where the mask is set, nothing elsewhere."""
    return pc.if_else(pa.array(mask), _piece(column), pa.scalar(b"", _BINARY))


def sizes(column: pa.LargeBinaryArray) -> Array:
    """Bytes of each row, int64."""
    lengths: Array = pc.binary_length(column).to_numpy()
    return lengths


def joined(*pieces: Piece) -> pa.LargeBinaryArray:
    """The pieces of each row, one after the other."""
    return pc.binary_join_element_wise(*map(_piece, pieces), pa.scalar(b"", _BINARY))


def content(column: pa.LargeBinaryArray) -> memoryview:
    """All rows of a column, one after the other, without a copy."""
    first, last = (column.offset + place for place in (0, len(column)))
    _, offsets, data = column.buffers()
    if data is None:
        return memoryview(b"")
    bounds = np.frombuffer(offsets, np.int64)
    return memoryview(data)[bounds[first] : bounds[last]]


def decimals(values: Array) -> pa.LargeBinaryArray:
    """Numbers as decimal digits; floats with as many as tell them from others."""
    return pc.cast(pc.cast(pa.array(values), pa.large_string()), _BINARY)


class Dictionary:
    """The bytes of those entries of a table of texts that some rows use.

    Args:
        entries: texts, or whatever ``encode`` takes.
        rows: the places in ``entries`` that will be asked for.
        encode: makes the bytes of an entry.
    """

    def __init__(self, entries: Any, rows: Iterable[Array], encode: Callable[[Any], bytes]) -> None:
        is_used = np.zeros(len(entries), bool)
        for some in rows:
            is_used[some] = True
        self.used = np.flatnonzero(is_used)
        self._place = np.cumsum(is_used) - 1
        self.words = words([encode(entries[row]) for row in self.used.tolist()])
        self._sizes = sizes(self.words)

    def pick(self, rows: Array) -> pa.LargeBinaryArray:
        """The bytes of the entries at these places of the table."""
        return pick(self.words, self._place[rows])

    def piece(self, rows: Array) -> Column:
        """The same, for JSON."""
        return picked(self.words, self._place[rows])

    def sizes(self, rows: Array) -> Array:
        """How many bytes these are."""
        found: Array = self._sizes[self._place[rows]]
        return found


def chunks(sizes: Array) -> Iterator[slice]:
    """Consecutive slices of rows of these sizes in bytes, none of many rows or of many bytes in all."""
    total = np.cumsum(sizes)
    begin = 0
    while begin < len(total):
        before = int(total[begin - 1]) if begin else 0
        fitting = int(np.searchsorted(total, before + _CHUNK_BYTES, "right"))
        end = max(begin + 1, min(begin + _CHUNK_ROWS, fitting))
        yield slice(begin, end)
        begin = end


def _piece(piece: Piece) -> Any:
    return pa.scalar(piece, _BINARY) if isinstance(piece, bytes) else piece
