"""Where a USDT probe's arguments are: the operands of its ELF note as the eBPF programs read them.

An operand is what sys/sdt.h prints on x86-64, a size in bytes (negative: signed) and a place in the assembler's words:
``8@%rdi``, ``-4@%eax``, ``1@%ah``, ``4@-20(%rbp)``, ``8@(%rax,%rcx,8)``, ``8@$5``, ``4@table+8(%rip)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pillion._native import ffi, lib

_OPERAND = re.compile(r"(-?)([1248])@(.+)")
_MEMORY = re.compile(r"([^()]*)(?:\((?:%(\w+))?(?:,%(\w+)(?:,([1248]))?)?\))?")
_TERM = re.compile(r"([+-]?)(?:(0x[0-9a-f]+|\d+)|([A-Za-z_.$][\w.$]*))")
_SHIFTS = {None: 0, "1": 0, "2": 1, "4": 2, "8": 3}

# struct pt_regs, by eight bytes (arch/x86/include/uapi/asm/ptrace.h).
_ORDER = (
    *("r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8"),
    *("ax", "cx", "dx", "si", "di", "orig_ax", "ip"),
)
_OFFSETS = {name: 8 * place for place, name in enumerate(_ORDER)} | {"sp": 152}


def _register_names() -> dict[str, int]:
    """Every name of a register's part to where it begins in struct pt_regs."""
    names = {"rip": _OFFSETS["ip"]}
    for name in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp"):
        short = name if name[1] != "x" else name[0]
        names |= dict.fromkeys((f"r{name}", f"e{name}", name, f"{short}l"), _OFFSETS[name])
        if name[1] == "x":
            names[f"{short}h"] = _OFFSETS[name] + 1
    for number in range(8, 16):
        names |= {f"r{number}{part}": _OFFSETS[f"r{number}"] for part in ("", "d", "w", "b", "l")}
    return names


_REGISTERS = _register_names()
_ADDRESSES = {name for name in _REGISTERS if name[0] == "r" and name[-1] not in "dwbl"}  # of 64 bits


@dataclass(frozen=True)
class Argument:
    """One struct pln_probe_arg; the default is one that cannot be read.

    Attributes:
        form: PLN_ARG_*.
        size: in bytes.
        value: the constant, or what is added to the registers.
        base, index: offsets into struct pt_regs, or PLN_NO_REGISTER.
        shift: of the index.
    """

    form: int = lib.PLN_ARG_UNKNOWN
    size: int = 8
    signed: bool = False
    value: int = 0
    base: int = lib.PLN_NO_REGISTER
    index: int = lib.PLN_NO_REGISTER
    shift: int = 0

    @property
    def known(self) -> bool:
        return bool(self.form != lib.PLN_ARG_UNKNOWN)

    def fill(self, native: Any) -> None:
        """Into a struct pln_probe_arg."""
        native.form, native.size, native.is_signed, native.value = self.form, self.size, self.signed, self.value
        native.base, native.index, native.shift = self.base, self.index, self.shift


def parse_operand(operand: str, location: int, symbol: Callable[[str], int], relocatable: bool) -> Argument:
    """What an operand says; an argument that cannot be read where it says something else.

    Args:
        location: virtual address of the probe; what is relative to %rip is relative to it at run time.
        symbol: name to virtual address, 0 for an unknown one.
        relocatable: of the addresses in the file only differences are true.
    """
    match = _OPERAND.fullmatch(operand)
    if not match:
        return Argument()  # a floating point number, an integer of 16 bytes
    signed, size, place = bool(match[1]), int(match[2]), match[3]
    if place.startswith("%"):
        register = _REGISTERS.get(place[1:])
        return Argument() if register is None else Argument(lib.PLN_ARG_REGISTER, size, signed, base=register)
    if place.startswith("$"):
        constant, names = _sum(place[1:], symbol)
        if constant is None or (names and relocatable):
            return Argument()
        return Argument(lib.PLN_ARG_CONSTANT, size, signed, _as_s64(constant))
    return _memory(place, location, symbol, relocatable, size, signed)


def _memory(
    place: str, location: int, symbol: Callable[[str], int], relocatable: bool, size: int, signed: bool
) -> Argument:
    match = _MEMORY.fullmatch(place)
    displacement, names = _sum(match[1], symbol) if match else (None, 0)
    if not match or displacement is None or (names and relocatable and match[2] != "rip"):
        return Argument()
    if not {match[2], match[3]} <= _ADDRESSES | {None}:
        return Argument()
    if match[2] == "rip":
        displacement -= location
    base, index = (_REGISTERS[name] if name else lib.PLN_NO_REGISTER for name in (match[2], match[3]))
    return Argument(lib.PLN_ARG_MEMORY, size, signed, _as_s64(displacement), base, index, _SHIFTS[match[4]])


def _sum(expression: str, symbol: Callable[[str], int]) -> tuple[int | None, int]:
    """The value of ``table+8-4``, None where it has none, and how many symbols are in it. Nothing is 0."""
    total, names, at = 0, 0, 0
    while at < len(expression):
        term = _TERM.match(expression, at)
        if not term or (at and not term[1]):
            return None, names
        value = int(term[2], 0) if term[2] and term[2][:2] == "0x" else int(term[2]) if term[2] else symbol(term[3])
        if term[3]:
            names += 1
            if not value:
                return None, names
        total += -value if term[1] == "-" else value
        at = term.end()
    return total, names


def _as_s64(value: int) -> int:
    return int(ffi.cast("int64_t", value & (1 << 64) - 1))
