"""What torch's emit_nvtx packs into the text of a range: ``name, seq = 5, op_id = 7, sizes = [[2, 3], []]``."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

_NAME = re.compile(r"(?P<name>.+?), (?=(?:stashed )?seq = |op_id = |sizes = )(?P<fields>.*)", re.DOTALL)
_FIELD = re.compile(r"(stashed seq|seq|op_id|sizes|input_op_ids) = (\d+|[\[(].*?[\])](?=, [a-z]|$))(?:, |$)", re.DOTALL)


class NvtxRange(NamedTuple):
    """The parts of a text.

    Attributes:
        sequence_nr: −1 for none.
        is_backward: the sequence number is that of the forward operator.
        shapes: JSON, or "".
        attributes: the text itself where it was taken apart, as a JSON object, or "".
    """

    name: str
    sequence_nr: int
    is_backward: bool
    shapes: str
    attributes: str


def nvtx_range(text: str) -> NvtxRange:
    """Take a text apart; one that emit_nvtx did not write is a name."""
    found = _NAME.fullmatch(text)
    fields = dict(_FIELD.findall(found["fields"])) if found else {}
    if not found or not fields:
        return NvtxRange(text, -1, False, "", "")
    backward = "stashed seq" in fields
    number = fields.get("stashed seq" if backward else "seq", "")
    sequence_nr = int(number) if number.isdigit() and len(number) < 19 else -1
    attributes = json.dumps({"NVTX text": text})
    return NvtxRange(found["name"], sequence_nr, backward, fields.get("sizes", ""), attributes)
