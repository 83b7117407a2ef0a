"""From the records of ranges, marks and calls to the table ``events``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pillion._order import time_order
from pillion._tables import Array, Columns, Labels
from pillion.merge.annotations import annotation_columns
from pillion.merge.correlations import Correlations
from pillion.merge.json_texts import is_list
from pillion.merge.ranges import Ranges
from pillion.merge.records import Records, Strings, fields, nanoseconds, pack
from pillion_probes.layout import CONSTANTS

_TORCH, _CUDA = CONSTANTS["PLN_SOURCE_TORCH"], CONSTANTS["PLN_SOURCE_CUDA"]
_USER_SCOPE = 7  # at::RecordScope of a range that is no operator
_CATEGORIES = ("user_annotation", "cpu_op", "cuda_runtime", "cuda_driver")
_FIELDS = (
    *("start_ns", "end_ns", "tid", "depth", "kind", "flags", "source", "end_tid", "value"),
    *("seq", "parent", "scope"),
)
EVENT_KINDS = (CONSTANTS["PLN_RANGE"], CONSTANTS["PLN_MARK"])


def hosts_of(records: Records, strings: Strings) -> Columns:
    """What hosts did: these ranges and marks as columns, in their order.

    The args of an operator are the shapes of its inputs, if they are a JSON list.
    """
    name, args = (strings.rows(records.records[key], records.region) for key in ("name", "args"))
    is_operator = (records.records["source"] == _TORCH) & (records.records["scope"] != _USER_SCOPE)
    shapes = np.where(is_operator, args, 0)
    if shapes.any():
        rows, which = np.unique(shapes, return_inverse=True)
        texts = strings.texts
        shapes = np.where([is_list(texts[row]) for row in rows.tolist()], rows, 0)[which].astype(np.int32)
    return host_columns(records, name, np.where(shapes > 0, 0, args), shapes)


def host_columns(records: Records, name: Array, args: Array, shapes: Array) -> Columns:
    """These ranges and marks as columns, in their order; the records are not needed any more.

    Args:
        name, args, shapes: rows of strings of each.
    """
    said: Columns = {"name": name, "args": args, "shapes": shapes, "region": records.region, "pid": records.pid}
    return said | fields(records.records, _FIELDS)


def joined_hosts(hosts: Columns, more: Columns) -> Columns:
    """Both."""
    return {name: np.concatenate([hosts[name], more[name]]) for name in hosts} if len(more["name"]) else hosts


class Events(NamedTuple):
    """The table, and what finds a row of it by the name of its range."""

    table: Columns
    ranges: Ranges


def events_table(hosts: Columns, correlations: Correlations, strings: Strings) -> Events:
    """The table of what hosts did, which is used up: with the table both would be in memory."""
    start = hosts["start_ns"] = nanoseconds(hosts["start_ns"])
    # A clock that two processors read can differ by a few ns: no range ends before it starts.
    end = hosts["end_ns"] = np.maximum(nanoseconds(hosts["end_ns"]), start)
    if not hosts["shapes"].any():
        del hosts["shapes"]
    order = time_order(start, end, pack(hosts["pid"], hosts["tid"]), hosts["depth"])
    del start, end
    columns = {name: values if order is None else values[order] for name, values in _taken_out(hosts)}
    seq, parent_seq, scope, region = (columns.pop(name) for name in ("seq", "parent", "scope", "region"))
    ranges = Ranges.index(region, columns["tid"], seq)
    events: Columns = {"id": np.arange(len(seq)), **columns}
    events["parent"] = _parents(events, ranges.find(region, events["tid"], parent_seq))
    events |= annotation_columns(events, scope, strings)
    return Events(events | _source_columns(events, scope, region, correlations), ranges)


def _taken_out(columns: Columns) -> Iterator[tuple[str, Array]]:
    for name in list(columns):
        yield name, columns.pop(name)


def _source_columns(events: Columns, scope: Array, region: Array, correlations: Correlations) -> Columns:
    """What torch's records and calls into CUDA say besides: none of these columns where there are none."""
    of_torch, is_call = events["source"] == _TORCH, events["source"] == _CUDA
    if not (of_torch.any() or is_call.any()):
        return {}
    is_operator = of_torch & (scope != _USER_SCOPE)
    is_driver = is_call & (scope == CONSTANTS["PLN_CUDA_DRIVER"])
    category = is_operator.astype(np.int32)
    category[is_call] = 2
    category[is_driver] = 3
    columns: Columns = {
        "category": Labels(category, _CATEGORIES),
        "scope": np.where(of_torch, scope, np.where(is_call, 0, _USER_SCOPE)).astype(np.int16),
        "sequence_nr": np.where(is_operator, events["value"].view(np.int64), -1),
    }
    if is_call.any():
        calls = np.flatnonzero(is_call)
        columns["correlation"] = np.zeros(len(is_call), np.int64)
        columns["correlation"][calls] = correlations.of_calls(region[calls], events["value"][calls])
        columns["value"] = np.where(is_call, np.uint64(0), events["value"])
    return columns


def _parents(events: Columns, parent: Array) -> Array:
    """Drops parents that no honest thread can have, so that every walk to the root ends: it climbs by depth."""
    depth, start = events["depth"], events["start_ns"]
    honest = (parent >= 0) & (depth[parent] < depth) & (start[parent] <= start)
    return np.where(honest, parent, -1)
