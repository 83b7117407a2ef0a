"""One numbering for the calls into CUDA of all processes, and for the work that they started.

A driver counts its calls anew in each process, and each time that collection begins: a call is (region, epoch, its
number). Here a series stands for region and epoch, and series << 32 | number for the call. The first series is 0, so
the numbers of a single process are the driver's own, and all stay below 2**53, which is what JavaScript counts to.
"""

from __future__ import annotations

import numpy as np

from pillion._tables import Array, Columns
from pillion.merge.records import Records, pack
from pillion_probes.layout import CONSTANTS

_LOW = np.uint64(0xFFFF_FFFF)


class Correlations:
    """Numbers calls and activities.

    Args:
        hosts: ranges and marks, with region, source and value.
        activities: as activities.
    """

    def __init__(self, hosts: Columns, activities: Records) -> None:
        calls = np.flatnonzero(hosts["source"] == CONSTANTS["PLN_SOURCE_CUDA"])
        self._called = hosts["region"][calls], hosts["value"][calls]
        series = pack(self._called[0], self._called[1] >> np.uint64(32))
        numbered = np.flatnonzero(activities.records["correlation"])
        others = pack(activities.region[numbered], activities.records["epoch"][numbered])
        self._series = np.unique(np.concatenate([_distinct(series), _distinct(others)]))

    def of_calls(self, region: Array, value: Array) -> Array:
        """The numbers of calls, int64, 0 for none.

        Args:
            value: of their ranges: epoch << 32 | number.
        """
        return self._number(pack(region, value >> np.uint64(32)), value & _LOW)

    def of_activities(self, of: Records) -> Array:
        """The numbers of the calls that activities name, int64, 0 for none."""
        return self._number(pack(of.region, of.records["epoch"]), of.records["correlation"])

    def is_called(self, numbers: Array) -> Array:
        """Mask of the numbers that a range has."""
        mask: Array = np.isin(numbers, self.of_calls(*self._called) if len(numbers) else [])
        return mask

    def _number(self, packed: Array, number: Array) -> Array:
        begins = _run_begins(packed)
        sizes = np.diff(begins, append=len(packed))
        series = np.repeat(np.searchsorted(self._series, packed[begins]), sizes)  # of what has no number any
        numbers: Array = np.where(number == 0, 0, (series << 32) | number.astype(np.int64))
        return numbers


def _run_begins(values: Array) -> Array:
    """Where a value differs from the one before: records of a region come in few runs."""
    return np.flatnonzero(np.diff(values, prepend=~values[:1]))


def _distinct(values: Array) -> Array:
    return np.unique(values[_run_begins(values)])
