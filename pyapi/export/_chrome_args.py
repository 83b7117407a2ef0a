"""The ``args`` of elements of a Chrome trace."""

from __future__ import annotations

from collections.abc import Callable

from pillion._tables import Array
from pillion.export._details import Detail
from pillion.export._json_pieces import Column, ListBegin, Piece, integers
from pillion.export._json_rows import members, quoted, value
from pillion.export._rows import Dictionary

ATTRIBUTES = "pillion.attributes"


class Args:
    """The member ``args`` of some rows, made of their details."""

    def __init__(self, details: list[Detail]) -> None:
        self._texts = [
            (Dictionary(it.texts, [it.values], _encoder(it)), it.values) for it in details if it.texts is not None
        ]
        self._numbers = [it for it in details if it.texts is None]

    def of(self, rows: Array, *more: Piece) -> list[Piece]:
        """``,"args":{…}``, with more members of these rows, each after a comma."""
        numbers = [_number(it, rows) for it in self._numbers]
        texts = [dictionary.piece(values[rows]) for dictionary, values in self._texts]
        return [ListBegin(b',"args":{'), *more, *numbers, *texts, b"}"]


def _number(detail: Detail, rows: Array) -> Column:
    return integers(b"," + quoted(detail.key) + b":", detail.values[rows], detail.silent)


def _encoder(detail: Detail) -> Callable[[str], bytes]:
    """Gives ``,"key":value`` of a text, nothing of the empty one."""

    def encode(text: str) -> bytes:
        if not text:
            return b""
        if not detail.key:
            return members(text, detail.reserved, ATTRIBUTES)
        return b"," + quoted(detail.key) + b":" + (value if detail.is_json else quoted)(text)

    return encode
