"""USDT probes of an ELF file: where they are, and where their arguments are.

The notes' layout is the one of systemtap's sys/sdt.h (type 3, owner "stapsdt"): three addresses, then provider, name
and argument strings.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pillion
from pillion._native import lib
from pillion_agent.elf import ELF
from pillion_agent.operands import Argument, parse_operand

# The file is its owner's: what it may cost to read it has bounds. QEMU has 2,500 probes.
_MAX_PROBES = 16_384
_MAX_SYMBOLS = 256
_NOP5 = b"\x0f\x1f\x44\x00\x00"


@dataclass(frozen=True)
class Probe:
    """One location of one probe.

    Attributes:
        location: file offset of the nop.
        semaphore: file offset of the 16-bit counter that the kernel raises while somebody is attached, 0 for none.
        arguments: where they are.
        long_nop: the nop has five bytes, see ``probe_files``.
    """

    provider: str
    name: str
    location: int
    semaphore: int
    arguments: tuple[Argument, ...]
    long_nop: bool = False


def library_path() -> Path:
    """The installed libpillion.so."""
    return Path(pillion.__file__).with_name("libpillion.so")


def read_probes(path: Path) -> list[Probe]:
    """All USDT probes of an ELF file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a 64-bit little-endian ELF file, or its notes are damaged.
    """
    with ELF(path) as elf:
        try:
            return _read_notes(elf)
        except (struct.error, ValueError) as error:
            raise ValueError(f"damaged USDT notes: {error}") from error


def _read_notes(elf: ELF) -> list[Probe]:
    notes = elf.section(".note.stapsdt")
    base = elf.sections.get(".stapsdt.base", (0, 0, 0))[0]
    relocatable = elf.relocatable

    @cache
    def symbol(name: str) -> int:
        if symbol.cache_info().misses > _MAX_SYMBOLS:
            return 0
        return elf.symbol(name) or elf.symbol(name, static=True)

    probes: list[Probe] = []
    at = 0
    while at + 12 <= len(notes):
        if len(probes) == _MAX_PROBES:
            raise ValueError(f"more than {_MAX_PROBES} probes")
        name_size, description_size, _ = struct.unpack_from("<III", notes, at)
        description = at + 12 + -(-name_size // 4) * 4
        if description + description_size > len(notes):
            raise ValueError("a note is cut off")
        location, base_then, semaphore = struct.unpack_from("<QQQ", notes, description)
        moved = base - base_then if base else 0  # prelink moves addresses, and the base with them
        provider, name, operands = notes[description + 24 : description + description_size].split(b"\0")[:3]
        place = elf.file_offset(location + moved)
        if not place or (semaphore and not elf.file_offset(semaphore + moved)):
            raise ValueError(f"a probe at {location:#x}, where nothing is")
        probes.append(
            Probe(
                provider.decode(),
                name.decode(),
                place,
                elf.file_offset(semaphore + moved) if semaphore else 0,
                tuple(
                    parse_operand(operand, location + moved, symbol, relocatable)
                    for operand in operands.decode().split()[: lib.PLN_PROBE_ARGS]
                ),
                elf.read(place, len(_NOP5)) == _NOP5,
            )
        )
        at = description + -(-description_size // 4) * 4
    return probes
