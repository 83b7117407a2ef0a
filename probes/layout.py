"""pillion.h as data: every struct's fields, offsets and numpy dtype, every literal constant.

The header is the only definition of a layout. It is small and plain on purpose, so that thirty lines read it; the C
compiler asserts the sizes, and tests compare the offsets found here with the compiler's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEADER_PATH = Path(__file__).with_name("pillion.h")

_TYPES = {
    "char": ("S", 1),
    "uint8_t": ("u1", 1),
    "uint16_t": ("<u2", 2),
    "uint32_t": ("<u4", 4),
    "uint64_t": ("<u8", 8),
    "int32_t": ("<i4", 4),
    "int64_t": ("<i8", 8),
}
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_BROKEN_LINE = re.compile(r"\s*\\\n\s*")  # the formatter breaks a long #define
_STRUCT = re.compile(r"struct (pln_\w+) \{(.*?)\n\};", re.DOTALL)
_FIELD = re.compile(r"(\w+) (\w+)(?:\[(\d+)\])?;")
_DEFINE = re.compile(r"^#define (PLN_\w+) (0x[0-9a-f]+|\d+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class StructLayout:
    """One struct of pillion.h.

    Attributes:
        name: the C name, ``pln_range``.
        fields: field name to (numpy format, offset in bytes); an array is one format, ``"(3,)<u8"`` or ``"S16"``.
        size_bytes: ``sizeof`` under the x86-64 and aarch64 ABIs (natural alignment).
    """

    name: str
    fields: dict[str, tuple[str, int]]
    size_bytes: int

    def dtype_spec(self) -> dict[str, Any]:
        """What ``numpy.dtype`` takes; this package itself does without numpy."""
        return {
            "names": list(self.fields),
            "formats": [fmt for fmt, _ in self.fields.values()],
            "offsets": [offset for _, offset in self.fields.values()],
            "itemsize": self.size_bytes,
        }


def _parse_struct(name: str, body: str) -> StructLayout:
    fields: dict[str, tuple[str, int]] = {}
    offset = alignment = 0
    for c_type, field, count in _FIELD.findall(body):
        fmt, size = _TYPES[c_type]
        offset = -(-offset // size) * size
        if not count:
            fields[field] = ("S1" if fmt == "S" else fmt, offset)
        elif fmt == "S":
            fields[field] = (f"S{count}", offset)
        else:
            fields[field] = (f"({count},){fmt}", offset)
        offset += size * int(count or 1)
        alignment = max(alignment, size)
    return StructLayout(name, fields, -(-offset // alignment) * alignment)


def _parse_header(text: str) -> tuple[dict[str, StructLayout], dict[str, int]]:
    text = _BROKEN_LINE.sub(" ", _COMMENT.sub("", text))
    structs = {name: _parse_struct(name, body) for name, body in _STRUCT.findall(text)}
    return structs, {name: int(value, 0) for name, value in _DEFINE.findall(text)}


STRUCTS, CONSTANTS = _parse_header(HEADER_PATH.read_text(encoding="utf-8"))
