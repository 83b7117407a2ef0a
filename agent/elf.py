"""The few things that the agent needs from a 64-bit little-endian ELF file: segments, sections, one symbol.

The layouts are the System V gABI's. The file may belong to anybody and change while it is read: it is never mapped,
every size is bounded, and damage is a ValueError. Function symbols by the million are the business of
cffi_build/src/collector/symbols.c.
"""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path
from types import TracebackType

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_PT_LOAD = 1
_MAX_HEADERS = 4096
_MAX_OFFSET = (1 << 62) - 1
_MAX_NAMES = 16
_MAX_SECTION = 64 << 20  # bytes; libpython's .dynsym and .dynstr have 100 kB


class ELF:
    """An open file.

    Attributes:
        segments: (virtual address, file offset, file size) of what the loader maps.
        sections: name to (virtual address, file offset, size).

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a 64-bit little-endian ELF file, or its headers are damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = _open_regular(path)
        try:
            if self.read(0, 6) != b"\x7fELF\x02\x01":
                raise ValueError(f"{path} is not a 64-bit little-endian ELF file")
            self.segments = self._read_segments()
            self.sections = self._read_sections()
        except BaseException as error:
            os.close(self._fd)
            if isinstance(error, struct.error | IndexError):
                raise ValueError(f"{path}: damaged ELF headers: {error}") from error
            raise

    def __enter__(self) -> ELF:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def read(self, offset: int, size: int) -> bytes:
        if offset > _MAX_OFFSET:
            raise ValueError(f"{self.path}: damaged ELF headers: offset {offset:#x}")
        return os.pread(self._fd, size, offset)

    def _table(self, at: int, count_at: int, entry: struct.Struct) -> list[tuple[int, ...]]:
        """Program or section headers: their offset stands at `at`, entry size and count at `count_at`."""
        (offset,) = struct.unpack("<Q", self.read(at, 8))
        size, count = struct.unpack("<HH", self.read(count_at, 4))
        if count > _MAX_HEADERS or (count and size < entry.size):
            raise ValueError(f"{self.path}: damaged ELF headers")
        table = self.read(offset, size * count)
        return [entry.unpack_from(table, i * size) for i in range(count)]

    def _read_segments(self) -> list[tuple[int, int, int]]:
        return [(h[3], h[2], h[5]) for h in self._table(0x20, 0x36, _SEGMENT) if h[0] == _PT_LOAD]

    def _read_sections(self) -> dict[str, tuple[int, int, int]]:
        headers = self._table(0x28, 0x3A, _SECTION)
        if not headers:
            return {}
        (names_index,) = struct.unpack("<H", self.read(0x3E, 2))
        names = self.read(headers[names_index][4], min(headers[names_index][5], _MAX_SECTION))
        found = {}
        for header in headers:
            name = names[header[0] : names.find(b"\0", header[0])]
            found[name.decode("ascii", "replace")] = (header[3], header[4], header[5])
        return found

    def section(self, name: str) -> bytes:
        """A section's bytes, empty where there is none."""
        _, offset, size = self.sections.get(name, (0, 0, 0))
        return self.read(offset, min(size, _MAX_SECTION))

    def file_offset(self, address: int) -> int:
        """Of a virtual address, 0 when no segment holds it."""
        for start, offset, size in self.segments:
            if start <= address < start + size:
                return address - start + offset
        return 0

    @property
    def relocatable(self) -> bool:
        """Whether it may be loaded anywhere: a library or a position-independent program."""
        return self.read(0x10, 2) != b"\x02\x00"  # ET_EXEC

    def symbol(self, name: str, static: bool = False) -> int:
        """Virtual address of a symbol, 0 where there is none, or several of that name.

        Args:
            static: look among all that a linker has left, not only what the loader sees.

        Raises:
            ValueError: the file is damaged.
        """
        text = self.section(".strtab" if static else ".dynstr")
        symbols = self.section(".symtab" if static else ".dynsym")
        symbols = symbols[: len(symbols) // _SYMBOL.size * _SYMBOL.size]
        wanted = name.encode() + b"\0"
        addresses: set[int] = set()
        at = text.find(wanted)
        for _ in range(_MAX_NAMES):  # a name may be the end of a longer one
            if at < 0:
                break
            addresses |= self._addresses(symbols, at)
            at = text.find(wanted, at + 1)
        return addresses.pop() if len(addresses) == 1 else 0

    @staticmethod
    def _addresses(symbols: bytes, name_at: int) -> set[int]:
        wanted = struct.pack("<I", name_at)
        addresses = set()
        found = symbols.find(wanted)
        while found >= 0:
            if found % _SYMBOL.size == 0:
                addresses.add(int(_SYMBOL.unpack_from(symbols, found)[4]))
            found = symbols.find(wanted, found + 1)
        return addresses - {0}


def _open_regular(path: Path) -> int:
    """Opens a regular file for reading.

    What only looks like one is found out before it is opened: opening a device does things, and a link may lead a
    process of root to any.
    """
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError(f"{path} is not a regular file")
        # O_NONBLOCK: its owner's lease must not stop the agent.
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    finally:
        os.close(handle)
