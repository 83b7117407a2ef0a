"""The packets of a Perfetto trace, and the texts that they share.

Names beside the numbers are those of the fields in Perfetto's protos.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, TYPE_CHECKING

import numpy as np

from pillion._tables import Array
from pillion.export._protobuf import integer, integers, message, messages, text
from pillion.export._rows import content, joined

if TYPE_CHECKING:
    from pillion.export._rows import Piece

_SEQUENCE = integer(10, 1)  # trusted_packet_sequence_id
FIRST = integer(13, 1) + integer(87, 1)  # sequence_flags: INCREMENTAL_STATE_CLEARED, first_packet_on_sequence
_NEXT = integer(13, 2)  # sequence_flags: NEEDS_INCREMENTAL_STATE
_PACKET_BYTES = 1 << 20

# Fields of InternedData that hold {iid, text}.
CATEGORIES, EVENT_NAMES, ANNOTATION_NAMES, FUNCTION_NAMES, MAPPING_PATHS, SOURCE_PATHS = 1, 2, 3, 5, 17, 18


class Packets:
    """Writes packets of one sequence."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._iids: dict[int, dict[str | None, int]] = {}

    def one(self, fields: bytes, flags: bytes = _NEXT) -> None:
        """Write a packet without a time."""
        self._file.write(message(1, _SEQUENCE, flags, fields))

    def rows(self, time_ns: Array, *fields: Piece) -> None:
        """Write a packet for each row."""
        timestamp = integers(8, np.maximum(time_ns, 0))
        self._file.write(content(joined(*messages(1, timestamp, _SEQUENCE + _NEXT, *fields))))

    def intern(self, field: int, texts: Iterable[str | None]) -> dict[str | None, int]:
        """Write those texts that are new; what is known of the field, text to iid."""
        known = self._iids.setdefault(field, {})
        new = [one for one in dict.fromkeys(texts) if one not in known]
        for one in new:
            known[one] = len(known) + 1
        self.entries(message(field, integer(1, known[one]), text(2, one)) for one in new)
        return known

    def entries(self, entries: Iterable[bytes]) -> None:
        """Write fields of interned_data, to which packets after them refer."""
        held: list[bytes] = []
        size = 0
        for entry in entries:
            held.append(entry)
            size += len(entry)
            if size > _PACKET_BYTES:
                self.one(message(12, *held))  # interned_data
                held, size = [], 0
        if held:
            self.one(message(12, *held))
