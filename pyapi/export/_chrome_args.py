"""The ``args`` of elements of a Chrome trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from pillion._tables import Array
from pillion.export._details import Detail
from pillion.export._json_rows import members, quoted, value
from pillion.export._rows import Dictionary, decimals, joined, only

if TYPE_CHECKING:
    import pyarrow as pa

    from pillion.export._rows import Piece


class Args:
    """The member ``args`` of some rows, made of their details."""

    def __init__(self, details: list[Detail]) -> None:
        self._texts = [
            (Dictionary(it.texts, [it.values], _encoder(it)), it.values) for it in details if it.texts is not None
        ]
        self._numbers = [it for it in details if it.texts is None]

    def sizes(self, rows: Array) -> Array:
        """How many bytes the texts among them have."""
        total = np.zeros(len(rows), np.int64)
        for texts, values in self._texts:
            total += texts.sizes(values[rows])
        return total

    def of(self, rows: Array) -> Piece:
        """``,"args":{…}``."""
        pieces = [_number(it, rows) for it in self._numbers]
        pieces += [texts.pick(values[rows]) for texts, values in self._texts]
        if not pieces:
            return b',"args":{}'
        # Each begins with a comma; the first of them has to go.
        return joined(b',"args":{', pc.binary_replace_slice(joined(*pieces), 0, 1, b""), b"}")


def _number(detail: Detail, rows: Array) -> pa.LargeBinaryArray:
    values = detail.values[rows]
    member = joined(b",", quoted(detail.key), b":", decimals(values))
    return member if detail.silent is None else only(values != detail.silent, member)


def _encoder(detail: Detail) -> Callable[[str], bytes]:
    """Gives ``,"key":value`` of a text, nothing of the empty one."""

    def encode(text: str) -> bytes:
        if not text:
            return b""
        if not detail.key:
            return members(text)
        return b"," + quoted(detail.key) + b":" + (value if detail.is_json else quoted)(text)

    return encode
