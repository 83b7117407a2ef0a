"""The wire format of Protocol Buffers: single messages, and columns of them.

See https://protobuf.dev/programming-guides/encoding. The two formats that need it use a few dozen fields, and the
official library takes microseconds for each message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pillion._tables import Array
from pillion.export._rows import from_parts, sizes

if TYPE_CHECKING:
    import pyarrow as pa

    from pillion.export._rows import Piece


def varint(value: int) -> bytes:
    """An integer; a negative one as its two's complement of 64 bits."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def integer(number: int, value: int) -> bytes:
    """A field that holds an integer, a bool or an enum."""
    return varint(number << 3) + varint(value)


def message(number: int, *fields: bytes) -> bytes:
    """A field that holds a message of these fields."""
    content = b"".join(fields)
    return varint(number << 3 | 2) + varint(len(content)) + content


def text(number: int, value: str | None) -> bytes:
    """A field that holds a text; half a surrogate pair becomes ``?``."""
    return message(number, (value or "").encode("utf-8", "replace"))


def packed(number: int, values: list[int]) -> bytes:
    """A repeated field of integers."""
    return message(number, *map(varint, values))


def varints(values: Array, prefix: bytes = b"") -> pa.LargeBinaryArray:
    """A column of integers, each behind the prefix."""
    left = values.astype(np.int64).view(np.uint64)
    count = np.ones(len(left), np.int64)
    for bits in range(7, 64, 7):
        count += left >= np.uint64(1 << bits)
    ahead, width = len(prefix), int(count.max(initial=1))
    row = np.empty((len(left), ahead + width), np.uint8)
    row[:, :ahead] = np.frombuffer(prefix, np.uint8)
    digits, places = row[:, ahead:], np.arange(width)
    for place in range(width):
        digits[:, place] = (left >> np.uint64(7 * place)) & np.uint64(0x7F)
    digits |= np.where(places < count[:, None] - 1, np.uint8(0x80), np.uint8(0))
    return from_parts(row[np.arange(ahead + width) < (count + ahead)[:, None]], count + ahead)


def integers(number: int, values: Array) -> pa.LargeBinaryArray:
    """For each row a field that holds an integer."""
    return varints(values, varint(number << 3))


def messages(number: int, *fields: Piece) -> tuple[Piece, ...]:
    """For each row the pieces of a field that holds a message; at least one of its fields is a column."""
    constant = sum(len(field) for field in fields if isinstance(field, bytes))
    total: Array = np.sum([sizes(field) for field in fields if not isinstance(field, bytes)], axis=0)
    return varints(total + constant, varint(number << 3 | 2)), *fields
