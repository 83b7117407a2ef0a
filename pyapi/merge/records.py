"""The records of all regions of a spool as columns, and their strings as one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pillion._tables import Array, Columns
from pillion.merge.spool import (
    ACTIVITY_DTYPE,
    RANGE_DTYPE,
    Dropped,
    RecordBlock,
    Spool,
    StructArray,
    parse_string_log,
)
from pillion_probes.layout import CONSTANTS

# A record as one thing: numpy moves it ten times as fast as field by field (2.1 million in 28 instead of 288 ms).
_WHOLE = np.dtype((np.void, CONSTANTS["PLN_RECORD_SIZE"]))
# Records that are taken apart at a time: 1 MB, which stays in the processor's cache from field to field. A million
# records with ten fields take 32 ms then, 85 ms field by field.
_PART_RECORDS = 16_384
_SPARSE_IDS = 65_536


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
            self._rows[region] = (np.array(used, np.uint64), np.array([self.row(texts[it]) for it in used], np.int32))

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
            return rows_of(ids, *self._rows[int(region[0])])
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
    def of_kinds(cls, spool: Spool, *groups: Iterable[int]) -> list[Records]:
        """Those of all regions whose kind is in each of these groups, in the order in which they were written."""
        group_of = np.full(1 << 16, len(groups), np.uint8)
        for place, kinds in enumerate(groups):
            group_of[list(kinds)] = place
        total = sum(len(block.records) for block in spool.records)
        # Memory to which nothing is written takes none, so each has room for all.
        found = [cls(*(np.empty(total, kind) for kind in (RANGE_DTYPE, np.uint32, np.uint32))) for _ in groups]
        counts = [0] * len(groups)
        for part in _parts(spool.records):
            group = group_of[part.records["kind"]]
            for place in np.flatnonzero(np.bincount(group, minlength=len(groups))[: len(groups)]).tolist():
                some = part.where(group == place)
                rows = slice(counts[place], counts[place] + len(some.records))
                found[place].records.view(_WHOLE)[rows] = some.records.view(_WHOLE)
                found[place].region[rows], found[place].pid[rows] = some.region, some.pid
                counts[place] = rows.stop
        return [cls(of.records[:count], of.region[:count], of.pid[:count]) for of, count in zip(found, counts)]

    def where(self, mask: Array) -> Records:
        """Those of a mask."""
        return self if mask.all() else self.take(mask)

    def take(self, rows: Array) -> Records:
        """These rows, or the rows of a mask."""
        return Records(taken(self.records, rows), self.region[rows], self.pid[rows])

    def as_activities(self) -> Records:
        """The same bytes as activities."""
        return Records(self.records.view(ACTIVITY_DTYPE), self.region, self.pid)


def _parts(blocks: list[RecordBlock]) -> Iterator[Records]:
    """The records of consecutive blocks, some thousands at a time: blocks may be many and small."""
    part: list[RecordBlock] = []
    count = 0
    for place, block in enumerate(blocks):
        part.append(block)
        count += len(block.records)
        if count >= _PART_RECORDS or place == len(blocks) - 1:
            sizes = [len(block.records) for block in part]
            yield Records(
                joined([block.records for block in part], RANGE_DTYPE),
                np.repeat(np.array([block.region for block in part], np.uint32), sizes),
                np.repeat(np.array([block.pid for block in part], np.uint32), sizes),
            )
            part, count = [], 0


def joined(parts: list[StructArray], dtype: np.dtype[np.void]) -> StructArray:
    """Records of a type one behind the other."""
    whole = np.concatenate([np.empty(0, _WHOLE), *(part.view(_WHOLE) for part in parts)])
    return whole.view(dtype)


def taken(records: StructArray, rows: Array) -> StructArray:
    """These rows of records, or the rows of a mask."""
    rows_of_all: StructArray = records.view(_WHOLE)[rows].view(records.dtype)
    return rows_of_all


def fields(records: StructArray, names: Iterable[str]) -> Columns:
    """Fields of records as columns of their own."""
    columns: Columns = {name: np.empty(len(records), records.dtype[name]) for name in names}
    for begin in range(0, len(records), _PART_RECORDS):
        part = slice(begin, begin + _PART_RECORDS)
        for name, column in columns.items():
            column[part] = records[name][part]
    return columns


def rows_of(ids: Array, known: Array, rows: Array) -> Array:
    """Rows of ids, 0 for an unknown one. ``known`` is ascending and not empty."""
    last = int(known[-1])
    if last < len(ids) + _SPARSE_IDS:  # where a job's ids are no honest ones, a table of them might take any memory
        row_of = np.zeros(last + 2, rows.dtype)
        row_of[known] = rows
        found: Array = row_of[np.minimum(ids, last + 1)]
        return found
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
