"""USDT probes of an ELF file: where they are, where their arguments are, and how to attach to one.

The notes' layout is the one of systemtap's sys/sdt.h (type 3, owner "stapsdt"): three addresses, then provider, name
and argument strings.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path

import pillion
from pillion_agent.elf import ELF
from pillion_agent.errors import AgentError

_BPF_PROBE_ENTRY = 0

# An operand as sys/sdt.h prints it on x86-64: size@register, size@offset(register) or size@$constant.
_OPERAND = re.compile(r"(-?\d+)@(?:%(\w+)|(-?\d*)\(%(\w+)\)|\$(-?\d+))$")
_REGISTERS = {
    **{f"r{letter}x": f"{letter}x" for letter in "abcd"},
    **{f"e{letter}x": f"{letter}x" for letter in "abcd"},
    **{f"{prefix}{name}": name for prefix in "re" for name in ("si", "di", "bp", "sp")},
    **{f"r{n}": f"r{n}" for n in range(8, 16)},
    **{f"r{n}d": f"r{n}" for n in range(8, 16)},
}


@dataclass(frozen=True)
class Probe:
    """One location of one probe.

    Attributes:
        location: file offset of the nop.
        semaphore: file offset of the 16-bit counter that the kernel raises while somebody is attached, 0 for none.
        operands: the arguments' places, ``["8@%rdi", …]``.
    """

    path: Path
    provider: str
    name: str
    location: int
    semaphore: int
    operands: tuple[str, ...]

    def argument_readers(self) -> list[str]:
        """C expressions over ``struct pt_regs *ctx`` for the arguments that sit in registers.

        Raises:
            AgentError: an argument is in memory; the library keeps its own in registers.
        """
        readers = []
        for operand in self.operands:
            match = _OPERAND.match(operand)
            register = _REGISTERS.get(match[2] or "") if match else None
            if not register:
                raise AgentError(
                    "cannot read a USDT argument",
                    f"{self.provider}:{self.name} has it at {operand}",
                    "reinstall pillion",
                )
            readers.append(f"((ctx)->{register})")
        return readers

    def attach(self, program_fd: int, pid: int = -1) -> int:
        """Attaches in every process that maps the file (or one); returns the descriptor that detaches when closed.

        bcc's declaration of this function lacks the last argument, the reference counter that lets the kernel manage
        the semaphore: it cannot leak, whatever happens to the agent.
        """
        prototype = ctypes.CFUNCTYPE(
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_uint64,
            ctypes.c_int,
            ctypes.c_uint32,
            use_errno=True,
        )
        function = prototype(("bpf_attach_uprobe", ctypes.CDLL("libbcc.so.0", use_errno=True)))
        event = f"pillion_{self.name}_{os.getpid()}".encode()
        fd = function(program_fd, _BPF_PROBE_ENTRY, event, os.fsencode(self.path), self.location, pid, self.semaphore)
        if fd < 0:
            reason = os.strerror(ctypes.get_errno())
            raise AgentError("cannot attach a uprobe", f"{self.path}: {reason}", "run `pillion doctor`", code=3)
        return int(fd)


def library_probe() -> Probe | None:
    """The "range" probe of the installed libpillion.so, None where it was built without probes."""
    path = Path(pillion.__file__).with_name("libpillion.so")
    try:
        return next(
            (probe for probe in read_probes(path) if (probe.provider, probe.name) == ("pillion", "range")), None
        )
    except (OSError, ValueError) as error:
        raise AgentError("cannot start", f"{path}: {error}", "reinstall pillion", code=3) from error


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
            raise ValueError(f"{path}: damaged USDT notes: {error}") from error


def _read_notes(elf: ELF) -> list[Probe]:
    notes = elf.section(".note.stapsdt")
    base = elf.sections.get(".stapsdt.base", (0, 0, 0))[0]
    probes = []
    at = 0
    while at + 12 <= len(notes):
        name_size, description_size, _ = struct.unpack_from("<III", notes, at)
        description = at + 12 + -(-name_size // 4) * 4
        location, base_then, semaphore = struct.unpack_from("<QQQ", notes, description)
        moved = base - base_then if base else 0  # prelink moves addresses, and the base with them
        provider, name, operands = notes[description + 24 : description + description_size].split(b"\0")[:3]
        probes.append(
            Probe(
                elf.path,
                provider.decode(),
                name.decode(),
                elf.file_offset(location + moved),
                elf.file_offset(semaphore + moved) if semaphore else 0,
                tuple(operands.decode().split()),
            )
        )
        at = description + -(-description_size // 4) * 4
    return probes
