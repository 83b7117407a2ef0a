"""The records of all regions of a spool as columns, and their strings as one table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pillion._tables import Array
from pillion.merge.spool import ACTIVITY_DTYPE, RANGE_DTYPE, Dropped, Spool, StructArray, parse_string_log
from pillion_probes.layout import CONSTANTS

# A record as one thing: numpy moves it ten times as fast as field by field (2.1 million in 28 instead of 288 ms).
_WHOLE = np.dtype((np.void, CONSTANTS["PLN_RECORD_SIZE"]))


class Strings:
    """One table for the strings of all regions; row 0 is ""."""

    def __init__(self, spool: Spool, dropped: list[Dropped]) -> None:
        self._row_of: dict[str, int] = {"": 0}
        self._rows: dict[int, tuple[Array, Array]] = {}  # region to its ids, ascending, and the row of each
        for region, log in spool.string_logs.items():
            texts, bad = parse_string_log(log, region)
            dropped += bad
            texts.setdefault(0, "")
            used = sorted(texts)
            self._rows[region] = (np.array(used, np.uint64), np.array([self.row(texts[string]) for string in used]))

    def row(self, text: str) -> int:
        """The row of a text, a new one if it has none yet."""
        return self._row_of.setdefault(text, len(self._row_of))

    @property
    def texts(self) -> list[str]:
        """By row."""
        return list(self._row_of)

    def rows(self, ids: Array, region: Array) -> Array:
        """Rows of string ids, each of its own region; 0 where there is no such string."""
        if len(region) and (region == region[0]).all() and int(region[0]) in self._rows:
            return rows_of(ids, *self._rows[int(region[0])]).astype(np.int32)
        rows = np.zeros(len(ids), np.int32)
        for number in np.unique(region):
            if int(number) in self._rows:
                mine = region == number
                rows[mine] = rows_of(ids[mine], *self._rows[int(number)])
        return rows


@dataclass(frozen=True)
class Records:
    """Records with the region and the pid of each."""

    records: StructArray
    region: Array
    pid: Array

    @classmethod
    def of(cls, spool: Spool) -> Records:
        """Those of all regions, in the order in which they were written."""
        blocks = spool.records
        sizes = [len(block.records) for block in blocks]
        return cls(
            joined([block.records for block in blocks], RANGE_DTYPE),
            np.repeat(np.array([block.region for block in blocks], np.uint32), sizes),
            np.repeat(np.array([block.pid for block in blocks], np.uint32), sizes),
        )

    def where(self, mask: Array) -> Records:
        """Those of a mask."""
        return self if mask.all() else self.take(mask)

    def take(self, rows: Array) -> Records:
        """These rows, or the rows of a mask."""
        return Records(taken(self.records, rows), self.region[rows], self.pid[rows])

    def as_activities(self) -> Records:
        """The same bytes as activities."""
        return Records(self.records.view(ACTIVITY_DTYPE), self.region, self.pid)

    def __add__(self, more: Records) -> Records:
        return Records(
            joined([self.records, more.records], self.records.dtype),
            np.concatenate([self.region, more.region]),
            np.concatenate([self.pid, more.pid]),
        )


def joined(parts: list[StructArray], dtype: np.dtype[np.void]) -> StructArray:
    """Records of a type one behind the other."""
    whole = np.concatenate([np.empty(0, _WHOLE), *(part.view(_WHOLE) for part in parts)])
    return whole.view(dtype)


def taken(records: StructArray, rows: Array) -> StructArray:
    """These rows of records, or the rows of a mask."""
    rows_of_all: StructArray = records.view(_WHOLE)[rows].view(records.dtype)
    return rows_of_all


def rows_of(ids: Array, known: Array, rows: Array) -> Array:
    """Rows of ids, 0 for an unknown one. ``known`` is ascending and not empty."""
    place = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[place] == ids, rows[place], 0)


def is_one_of(column: Array, numbers: Iterable[int]) -> Array:
    """Mask of the rows of a column of 16 bits that are one of the numbers."""
    table = np.zeros(1 << 16, bool)
    table[list(numbers)] = True
    mask: Array = table[column]
    return mask


def nanoseconds(column: Array) -> Array:
    """u64 times as int64: an absurd one becomes the greatest there is, so that none wraps below 0."""
    return np.minimum(column, np.uint64(2**63 - 1)).astype(np.int64)


def pack(high: Array, low: Array) -> Array:
    """Two numbers of 32 bits in one of 64."""
    packed: Array = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    return packed
