"""Calls into CUDA of which only the driver's own records tell: no thread wrote a range with the same number."""

from __future__ import annotations

import numpy as np

from pillion._tables import Array, Columns
from pillion.merge.activity_kinds import API_KINDS, DRIVER_API
from pillion.merge.correlations import Correlations
from pillion.merge.events import host_columns
from pillion.merge.json_texts import members
from pillion.merge.records import Records, Strings, is_one_of, pack
from pillion.merge.spool import RANGE_DTYPE
from pillion_probes.layout import CONSTANTS

_U32_MAX = 2**32 - 1


def calls_of_activities(of: Records, correlations: Correlations, strings: Strings) -> Columns:
    """They as ranges of the threads that the driver names; they have no parents.

    Args:
        of: activities. Of a call ``value`` is the number of the function, ``detail`` what it returned.
    """
    told = of.where(is_one_of(of.records["activity"], API_KINDS))
    told = told.where(~correlations.is_called(correlations.of_activities(told)))
    source = told.records
    made = np.zeros(len(source), RANGE_DTYPE)
    made["start_ns"], made["end_ns"] = source["start_ns"], source["end_ns"]
    made["kind"], made["source"] = CONSTANTS["PLN_RANGE"], CONSTANTS["PLN_SOURCE_CUDA"]
    made["tid"] = made["end_tid"] = _threads(told, strings)
    made["value"] = pack(source["epoch"], source["correlation"])
    is_driver = source["activity"] == DRIVER_API
    made["scope"] = np.where(is_driver, CONSTANTS["PLN_CUDA_DRIVER"], CONSTANTS["PLN_CUDA_RUNTIME"])
    records = Records(made, told.region, told.pid)
    return host_columns(
        records, _names(told, is_driver, strings), _errors(told, strings), np.zeros(len(made), np.int32)
    )


def _threads(told: Records, strings: Strings) -> Array:
    """What the attributes say, else the thread that handed the records over."""
    texts = strings.texts
    rows, which = np.unique(strings.rows(told.records["attributes"], told.region), return_inverse=True)
    tids = [members(texts[row]).get("tid") for row in rows.tolist()]
    known = np.array([tid if isinstance(tid, int) and 0 < tid <= _U32_MAX else 0 for tid in tids], np.uint32)[which]
    return np.where(known > 0, known, told.records["tid"])


def _names(told: Records, is_driver: Array, strings: Strings) -> Array:
    rows = strings.rows(told.records["name"], told.region)
    nameless = np.flatnonzero(rows == 0)
    function = told.records["value"][nameless] & np.uint64(_U32_MAX)
    keys, which = np.unique(pack(is_driver[nameless], function), return_inverse=True)
    made = [strings.row(f"{'driver' if key >> 32 else 'runtime'} call {key & _U32_MAX}") for key in keys.tolist()]
    rows[nameless] = np.array(made, np.int32)[which]
    return rows


def _errors(told: Records, strings: Strings) -> Array:
    results, which = np.unique(told.records["detail"], return_inverse=True)
    return np.array([strings.row(f"error {result}" if result else "") for result in results.tolist()], np.int32)[which]
