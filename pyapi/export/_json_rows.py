"""Rows of JSON."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from pillion._tables import Array
from pillion.export._rows import content, decimals, joined, only, pick, words

if TYPE_CHECKING:
    import pyarrow as pa

_THOUSANDTHS = words([f".{part:03}".encode() for part in range(1000)])


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def quoted(text: str | None) -> bytes:
    """A text as JSON, in ASCII."""
    return json.dumps(text or "").encode()


def value(text: str) -> bytes:
    """A text that holds JSON as it is, any other as a string."""
    try:
        return json.dumps(_DECODER.decode(text), allow_nan=False).encode()
    except (ValueError, RecursionError):
        return quoted(text)


def members(text: str) -> bytes:
    """The members of a JSON object, each after a comma; a text that holds none becomes the member ``attributes``."""
    try:
        decoded = _DECODER.decode(text)
        if isinstance(decoded, dict):
            # Most are ASCII, and then their own text will do: there may be one for each event.
            whole = text.strip() if text.isascii() else json.dumps(decoded, allow_nan=False)
            return f",{whole[1:-1]}".encode() if decoded else b""
    except (ValueError, RecursionError):
        pass
    return b',"attributes":' + quoted(text)


def microseconds(times_ns: Array) -> pa.LargeBinaryArray:
    """Nanoseconds as microseconds with three decimals."""
    whole, part = np.divmod(np.abs(times_ns), 1000)
    digits = joined(decimals(whole), pick(_THOUSANDTHS, part))
    negative = times_ns < 0
    return joined(only(negative, b"-"), digits) if negative.any() else digits


class Elements:
    """The elements of a JSON array, written many rows at a time.

    Args:
        file: where they go.
        is_first: the array has no elements yet.
    """

    def __init__(self, file: IO[bytes], is_first: bool = True) -> None:
        self._file = file
        self._is_first = is_first

    def write(self, rows: pa.LargeBinaryArray) -> None:
        """Write rows that each begin with a comma; that of the very first element is left out."""
        text = content(rows)
        self._file.write(text[1:] if self._is_first else text)
        self._is_first = self._is_first and not len(text)
