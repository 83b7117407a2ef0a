"""Where the running kernel keeps the fields that the eBPF programs read: offsets from BTF.

The layout of BTF is Documentation/bpf/btf.rst of the Linux source. vmlinux holds about 150,000 types, and walking
them in Python takes a third of a second; the agent wants five fields. So a struct is found by its name: the offset of
the name in the string section, then the four bytes of that offset in the type section.
"""

from __future__ import annotations

import struct
from pathlib import Path

VMLINUX = Path("/sys/kernel/btf/vmlinux")

_HEADER = struct.Struct("<HBBIIIII")  # magic, version, flags, hdr_len, type_off, type_len, str_off, str_len
_TYPE = struct.Struct("<III")  # name_off, info, size
_MEMBER = struct.Struct("<III")  # name_off, type, offset (bits; with kind_flag: bitfield size << 24 | bits)
_KIND_STRUCT = 4


class BTF:
    """The kernel's own type information.

    Raises:
        OSError: the file cannot be read (a kernel without CONFIG_DEBUG_INFO_BTF).
        ValueError: the file is not little-endian BTF, or is damaged.
    """

    def __init__(self, path: Path = VMLINUX) -> None:
        data = path.read_bytes()
        if len(data) < _HEADER.size or data[:2] != b"\x9f\xeb":
            raise ValueError(f"{path} is not little-endian BTF")
        _, _, _, header, type_off, type_len, str_off, str_len = _HEADER.unpack_from(data)
        self._types = data[header + type_off : header + type_off + type_len]
        self._strings = data[header + str_off : header + str_off + str_len]

    def member_offset(self, struct_name: str, member: str) -> int:
        """Offset of a direct member in bytes.

        Raises:
            LookupError: no such struct or member.
            ValueError: the file is damaged.
        """
        try:
            members = self._members(struct_name)
        except struct.error as error:
            raise ValueError(f"damaged BTF: {error}") from error
        if member not in members:
            raise LookupError(f"struct {struct_name} has no member {member}")
        return members[member]

    def _name(self, offset: int) -> str:
        end = self._strings.find(b"\0", offset)
        return self._strings[offset:end].decode("ascii", "replace")

    def _members(self, struct_name: str) -> dict[str, int]:
        name_off = self._strings.find(b"\0" + struct_name.encode() + b"\0") + 1
        if not name_off:
            raise LookupError(f"the kernel has no struct {struct_name}")
        wanted = struct.pack("<I", name_off)
        at = self._types.find(wanted)
        while at >= 0:
            _, info, size = _TYPE.unpack_from(self._types, at)
            kind, count = (info >> 24) & 0x1F, info & 0xFFFF
            # The same four bytes may stand for something else; a struct of this name has members and a size.
            if at % 4 == 0 and kind == _KIND_STRUCT and count and 0 < size < 1 << 20:
                return self._read_members(at + _TYPE.size, count, bool(info >> 31))
            at = self._types.find(wanted, at + 1)
        raise LookupError(f"the kernel has no struct {struct_name} with members")

    def _read_members(self, at: int, count: int, bitfields: bool) -> dict[str, int]:
        members = {}
        for index in range(count):
            name_off, _, bits = _MEMBER.unpack_from(self._types, at + index * _MEMBER.size)
            members[self._name(name_off)] = (bits & 0xFFFFFF if bitfields else bits) // 8
        return members
