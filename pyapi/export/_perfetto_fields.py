"""What a slice of a Perfetto trace has besides name and time: annotations, flows, its stack.

Names beside the numbers are those of the fields of TrackEvent and DebugAnnotation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from pillion._tables import Array
from pillion.export._details import Detail
from pillion.export._perfetto_packets import ANNOTATION_NAMES
from pillion.export._protobuf import integer, integers, message, messages, text, varint
from pillion.export._rows import Dictionary, from_parts, joined, only, pick

if TYPE_CHECKING:
    from pillion.export._perfetto_packets import Packets
    from pillion.export._rows import Piece

Fields: TypeAlias = "Callable[[Array], Piece]"
"""Takes rows of a table, gives more fields of the TrackEvent with which each begins."""


class Annotations:
    """The details of rows as debug annotations."""

    def __init__(self, packets: Packets, details: list[Detail]) -> None:
        iids = packets.intern(ANNOTATION_NAMES, [_name(detail) for detail in details])
        self._numbers = [(integer(1, iids[_name(it)]), it) for it in details if it.texts is None]  # name_iid
        self._texts = [
            (Dictionary(it.texts, [it.values], _encoder(iids[_name(it)], it.is_json)), it.values)
            for it in details
            if it.texts is not None
        ]

    def sizes(self, rows: Array) -> Array:
        """How many bytes the texts among them have."""
        return sum((texts.sizes(values[rows]) for texts, values in self._texts), np.zeros(len(rows), np.int64))

    def of(self, rows: Array) -> list[Piece]:
        """The fields of each row."""
        numbers: list[Piece] = [_number(name, detail, rows) for name, detail in self._numbers]
        return numbers + [texts.pick(values[rows]) for texts, values in self._texts]


def _name(detail: Detail) -> str:
    return detail.key or "attributes"


def _number(name: bytes, detail: Detail, rows: Array) -> Piece:
    values = detail.values[rows]
    annotation = joined(*messages(4, name, integers(4, values)))  # debug_annotations {name_iid int_value}
    return annotation if detail.silent is None else only(values != detail.silent, annotation)


def _encoder(iid: int, is_json: bool) -> Callable[[str], bytes]:
    number = 9 if is_json else 6  # legacy_json_value or string_value
    return lambda value: message(4, integer(1, iid), text(number, value)) if value else b""


def callstacks(stack: Array) -> Fields:
    """A reference to the stack of each row, where it has one."""

    def fields(rows: Array) -> Piece:
        return only(stack[rows] > 0, integers(56, stack[rows])) if stack.any() else b""  # callstack_iid

    return fields


def flows(number: int, rows: Array, flow: Array, count: int) -> Fields:
    """The flows that each row has in a field of fixed64: 47 flow_ids, 48 terminating_flow_ids.

    Args:
        number: of the field.
        rows: of a table, one for each flow.
        flow: the number of each flow.
        count: how many rows the table has.
    """
    if not len(rows):
        return lambda _: b""
    order = np.argsort(rows, kind="stable")
    key = np.frombuffer(varint(number << 3 | 1), np.uint8)
    entries = np.empty((len(rows), len(key) + 8), np.uint8)
    entries[:, : len(key)] = key
    entries[:, len(key) :] = flow[order].astype("<u8").view(np.uint8).reshape(-1, 8)
    sizes = np.bincount(rows, minlength=count) * entries.shape[1]
    fields = from_parts(entries.reshape(-1), sizes)
    return lambda some: pick(fields, some)
