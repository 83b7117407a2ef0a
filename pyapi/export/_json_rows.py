"""Rows of JSON."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import IO, Any

from pillion.export._json_pieces import Piece, json_rows


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


def members(text: str, reserved: Collection[str] = (), apart: str = "") -> bytes:
    """The members of a JSON object, each after a comma; a text that holds none becomes the member ``attributes``.

    Args:
        reserved: keys that mean something else here: members with these are those of an object in the member ``apart``.
    """
    try:
        decoded = _DECODER.decode(text)
        if isinstance(decoded, dict):
            if taken := decoded.keys() & set(reserved):
                decoded = {key: it for key, it in decoded.items() if key not in taken} | {
                    apart: {key: it for key, it in decoded.items() if key in taken}
                }
            # Most are ASCII, and then their own text will do: there may be one for each event.
            whole = text.strip() if text.isascii() and not taken else json.dumps(decoded, allow_nan=False)
            return f",{whole[1:-1]}".encode() if decoded else b""
    except (ValueError, RecursionError):
        pass
    return b',"attributes":' + quoted(text)


class Elements:
    """The elements of a JSON array, written many rows at a time.

    Args:
        file: where they go.
        is_first: the array has no elements yet.
    """

    def __init__(self, file: IO[bytes], is_first: bool = True) -> None:
        self._file = file
        self._is_first = is_first

    def write(self, text: bytes | memoryview) -> None:
        """Write elements that each begin with a comma; that of the very first is left out."""
        self._file.write(text[1:] if self._is_first else text)
        self._is_first = self._is_first and not len(text)

    def write_rows(self, rows: int, *pieces: Piece) -> None:
        """Write elements that are made of these pieces, the first of which begins with a comma."""
        for text in json_rows(list(pieces), rows):
            self.write(text)
