"""Rows of JSON put together from columns: what each row consists of, and the native writer fed with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from pillion._native import ffi, lib
from pillion._tables import Array

if TYPE_CHECKING:
    import pyarrow as pa

_BUFFER_BYTES = 1 << 20  # a row that is longer makes it grow
_PART_ROWS = 65_536


class Column(NamedTuple):
    """A piece that differs from row to row.

    Attributes:
        kind: PLN_PIECE_*.
        values: by row.
        before, after: what each value stands between.
        silent: the value of rows that have nothing of this piece, None if there is none.
        words: what values are the numbers of.
    """

    kind: int
    values: Array
    before: bytes = b""
    after: bytes = b""
    silent: int | None = None
    words: pa.LargeBinaryArray | None = None


class ListBegin(NamedTuple):
    """A text; of what a row has next a leading comma is left out."""

    text: bytes


Piece: TypeAlias = "Column | ListBegin | bytes"
"""What a row is made of; bytes are the same in every row."""


def integers(before: bytes, values: Array, silent: int | None = None, after: bytes = b"") -> Column:
    """Decimal digits."""
    kind = lib.PLN_PIECE_UNSIGNED if values.dtype.kind == "u" else lib.PLN_PIECE_INTEGER
    return Column(kind, values, before, after, silent)


def microseconds(before: bytes, times_ns: Array, silent_ns: int | None = None) -> Column:
    """Nanoseconds as microseconds with three decimals."""
    return Column(lib.PLN_PIECE_MICROSECONDS, times_ns, before, silent=silent_ns)


def picked(words: pa.LargeBinaryArray, places: Array, before: bytes = b"", silent: int | None = None) -> Column:
    """The words at these places."""
    return Column(lib.PLN_PIECE_WORD, places, before, silent=silent, words=words)


def json_rows(pieces: list[Piece], rows: int) -> Iterator[memoryview]:
    """The rows one after the other, in parts that are valid until the next is asked for."""
    native, kept = _native(pieces)
    buffer = bytearray(_BUFFER_BYTES)
    row = ffi.new("size_t *")
    while row[0] < rows:
        out = ffi.from_buffer("uint8_t[]", buffer)
        size = int(lib.pln_json_rows(native, len(pieces), row, rows, out, len(buffer)))
        if size:
            yield memoryview(buffer)[:size]
        else:
            buffer = bytearray(2 * len(buffer))
    del kept  # until here the pieces point into it


def parts(rows: int) -> Iterator[slice]:
    """Slices of rows, so that what is made for them does not take memory for all of them at once."""
    for begin in range(0, rows, _PART_ROWS):
        yield slice(begin, min(begin + _PART_ROWS, rows))


def _native(pieces: list[Piece]) -> tuple[Any, list[Any]]:
    """The pieces as structs, and what keeps their memory."""
    native, kept = ffi.new("struct pln_piece[]", len(pieces)), []

    def pointer(kind: str, values: Any) -> Any:
        kept.append(ffi.from_buffer(kind, values))
        return kept[-1]

    for struct, piece in zip(native, pieces):
        if not isinstance(piece, Column):
            text = piece.text if isinstance(piece, ListBegin) else piece
            struct.kind = lib.PLN_PIECE_LIST if isinstance(piece, ListBegin) else lib.PLN_PIECE_TEXT
            struct.before, struct.before_size = pointer("uint8_t[]", text), len(text)
            continue
        struct.kind = piece.kind
        struct.before, struct.before_size = pointer("uint8_t[]", piece.before), len(piece.before)
        struct.after, struct.after_size = pointer("uint8_t[]", piece.after), len(piece.after)
        # Unsigned values keep their bits.
        struct.values = pointer("int64_t[]", np.ascontiguousarray(piece.values.astype(_wide(piece.values), copy=False)))
        struct.has_silent, struct.silent = piece.silent is not None, piece.silent or 0
        if piece.words is not None:
            _, ends, data = piece.words.buffers()
            struct.ends = pointer("int64_t[]", ends)
            struct.words = pointer("uint8_t[]", data) if data is not None else pointer("uint8_t[]", b"")
    return native, kept


def _wide(values: Array) -> str:
    return "u8" if values.dtype.kind == "u" else "i8"
