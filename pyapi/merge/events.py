"""From the records of ranges, marks and calls to the table ``events``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pillion._tables import Array, Columns, Labels
from pillion.merge.annotations import annotation_columns
from pillion.merge.correlations import Correlations
from pillion.merge.json_texts import is_list
from pillion.merge.ranges import Ranges
from pillion.merge.records import Records, Strings, nanoseconds, pack
from pillion_probes.layout import CONSTANTS

_TORCH, _CUDA = CONSTANTS["PLN_SOURCE_TORCH"], CONSTANTS["PLN_SOURCE_CUDA"]
_USER_SCOPE = 7  # at::RecordScope of a range that is no operator
_CATEGORIES = ("user_annotation", "cpu_op", "cuda_runtime", "cuda_driver")
EVENT_KINDS = (CONSTANTS["PLN_RANGE"], CONSTANTS["PLN_MARK"])


class Hosts(NamedTuple):
    """What hosts did, in any order.

    Attributes:
        records: ranges and marks.
        name, args, shapes: rows of strings of each.
    """

    records: Records
    name: Array
    args: Array
    shapes: Array

    @classmethod
    def of(cls, records: Records, strings: Strings) -> Hosts:
        """These ranges and marks. The args of an operator are the shapes of its inputs, if they are a JSON list."""
        name, args = (strings.rows(records.records[key], records.region) for key in ("name", "args"))
        is_operator = (records.records["source"] == _TORCH) & (records.records["scope"] != _USER_SCOPE)
        shapes = np.where(is_operator, args, 0)
        if shapes.any():
            rows, which = np.unique(shapes, return_inverse=True)
            texts = strings.texts
            shapes = np.where([is_list(texts[row]) for row in rows.tolist()], rows, 0)[which].astype(np.int32)
        return cls(records, name, np.where(shapes > 0, 0, args), shapes)

    def and_more(self, more: Hosts) -> Hosts:
        """Both."""
        if not len(more.name):
            return self
        texts = (np.concatenate(both) for both in zip(self[1:], more[1:]))
        return Hosts(self.records + more.records, *texts)


class Events(NamedTuple):
    """The table, and what finds a row of it by the name of its range."""

    table: Columns
    ranges: Ranges


def events_table(hosts: Hosts, correlations: Correlations, strings: Strings) -> Events:
    """The table of what hosts did."""
    of = hosts.records
    start = nanoseconds(of.records["start_ns"])
    # A clock that two processors read can differ by a few ns: no range ends before it starts.
    end = np.maximum(nanoseconds(of.records["end_ns"]), start)
    order = np.lexsort((of.records["depth"], -end, start, pack(of.pid, of.records["tid"])))
    copied = ("tid", "depth", "kind", "flags", "source", "end_tid", "value", "seq", "parent", "scope")
    columns = {name: of.records[name][order] for name in copied}
    seq, parent_seq, scope = (columns.pop(name) for name in ("seq", "parent", "scope"))
    region = of.region[order]
    ranges = Ranges.index(region, columns["tid"], seq)
    events: Columns = {
        "id": np.arange(len(order)),
        "pid": of.pid[order],
        "start_ns": start[order],
        "end_ns": end[order],
        "name": hosts.name[order],
        "args": hosts.args[order],
        **columns,
        **({"shapes": hosts.shapes[order]} if hosts.shapes.any() else {}),
    }
    events["parent"] = _parents(events, ranges.find(region, events["tid"], parent_seq))
    events |= annotation_columns(events, scope, strings)
    return Events(events | _source_columns(events, scope, region, correlations), ranges)


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
