"""A CPython process from outside: where its runtime is, what a code object is called.

The offsets are those of CPython's Include/internal headers of each version; tests/probes compiles a program against the
headers and compares. A version that is missing here is said (process.python_unavailable), and native stacks go on.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass

from pillion._native import lib
from pillion_agent.elf import ELF
from pillion_agent.procfs import Mapping, mapped_file, read_mappings

_BINARY = re.compile(r"/(?:lib)?python([23]\.\d+)[^/]*$")
_MAX_NAME = 4096  # code points of a name or path
_MAX_LINE_TABLE = 1 << 20  # bytes
_ADDRESS_END = 1 << 47  # of user space on x86-64


@dataclass(frozen=True)
class Layout:
    """Offsets in bytes of one CPython minor version, 64-bit."""

    walker: int  # PLN_PYTHON_*
    runtime_tss_key: int  # _PyRuntimeState.gilstate.autoTSSkey
    runtime_interpreters: int  # _PyRuntimeState.interpreters.head
    interpreter_threads: int  # PyInterpreterState.threads.head
    thread_id: int  # PyThreadState.thread_id: pthread_self()
    code_filename: int
    code_qualname: int
    code_linetable: int
    code_firstlineno: int
    unicode_ascii: int  # sizeof(PyASCIIObject)
    unicode_compact: int  # sizeof(PyCompactUnicodeObject)


LAYOUTS = {
    (3, 11): Layout(
        walker=1,
        runtime_tss_key=592,
        runtime_interpreters=40,
        interpreter_threads=16,
        thread_id=152,
        code_filename=112,
        code_qualname=128,
        code_linetable=136,
        code_firstlineno=72,
        unicode_ascii=48,
        unicode_compact=72,
    ),
}

# struct pthread's specific_1stblock in glibc 2.3 to 2.41 on x86-64; checked against each process (see _tss_offset).
GLIBC_TSS_OFFSET = 0x310


class NotPython(Exception):
    """No interpreter is mapped; it may come later."""


@dataclass(frozen=True)
class Code:
    """One code object; lines is its location table."""

    name: str
    file: str
    first_line: int
    lines: bytes = b""

    def line(self, instruction: int) -> int:
        """Of an instruction, counted in 2-byte code units."""
        return int(lib.pln_python_line(self.lines, len(self.lines), self.first_line, instruction))


UNKNOWN = Code("[unknown Python function]", "", 0)


class Interpreter:
    """CPython in a process.

    Attributes:
        version: (3, 11).
        layout: None where this version's structs are not known.
        runtime: address of _PyRuntime.

    Raises:
        NotPython: no CPython is mapped (yet).
        OSError: the process has gone, or its files cannot be read.
    """

    def __init__(self, pid: int) -> None:
        self.version, self.runtime = _find_runtime(pid)
        self.layout = LAYOUTS.get(self.version)
        self._memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        self._codes: dict[int, Code] = {}

    def close(self) -> None:
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    def read(self, address: int, size: int) -> bytes:
        """Raises OSError where the process has no such memory: an address is whatever the job's memory held."""
        if not 0 < address < _ADDRESS_END:
            raise OSError("not a user address")
        data = os.pread(self._memory, size, address)
        if len(data) != size:
            raise OSError("short read")
        return data

    def _u64(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), "little")

    @property
    def tss_key(self) -> int:
        """Address of the Py_tss_t that eBPF reads."""
        return self.runtime + self.layout.runtime_tss_key if self.layout else 0

    def tss_offset(self) -> int:
        """From the thread pointer to pthread's first block of thread-specific data.

        Found, not assumed: a thread state knows its thread pointer (pthread_self()), and the block holds the thread
        state's address under the key. 0 while the interpreter has not started.
        """
        assert self.layout
        try:
            initialized, key = struct.unpack("<II", self.read(self.tss_key, 8))
            interpreter = self._u64(self.runtime + self.layout.runtime_interpreters)
            if not initialized or not interpreter:
                return 0
            state = self._u64(interpreter + self.layout.interpreter_threads)
            thread = self._u64(state + self.layout.thread_id)
            block = self.read(thread, 0x800)
        except OSError:
            return 0
        wanted = struct.pack("<Q", state)
        expected = GLIBC_TSS_OFFSET + 16 * key + 8
        if block[expected : expected + 8] == wanted:
            return GLIBC_TSS_OFFSET
        return max(int(block.find(wanted) - 16 * key - 8), 0)

    def code(self, address: int) -> Code:
        """The code object at an address, read once. Its memory may have gone: then UNKNOWN, which is not kept."""
        if address in self._codes:
            return self._codes[address]
        try:
            code = self._read_code(address)
        except (OSError, ValueError, UnicodeDecodeError):
            return UNKNOWN
        self._codes[address] = code
        return code

    def _read_code(self, address: int) -> Code:
        layout = self.layout
        assert layout
        head = self.read(address, layout.code_linetable + 8)

        def pointer(offset: int) -> int:
            return int(struct.unpack_from("<Q", head, offset)[0])

        (first_line,) = struct.unpack_from("<i", head, layout.code_firstlineno)
        table = pointer(layout.code_linetable)
        size = self._u64(table + 16)  # PyVarObject.ob_size; the bytes start at 32
        lines = self.read(table + 32, size) if size <= _MAX_LINE_TABLE else b""
        return Code(
            self._text(pointer(layout.code_qualname)), self._text(pointer(layout.code_filename)), first_line, lines
        )

    def _text(self, address: int) -> str:
        """A str object: PyASCIIObject or PyCompactUnicodeObject (Include/cpython/unicodeobject.h)."""
        assert self.layout
        length, _, state = struct.unpack("<qqI", self.read(address + 16, 20))
        kind, compact, ascii_only = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
        if not compact or not 0 <= length <= _MAX_NAME or kind not in (1, 2, 4):
            raise ValueError("not a compact str")
        if ascii_only:
            return self.read(address + self.layout.unicode_ascii, length).decode("ascii")
        data = self.read(address + self.layout.unicode_compact, length * kind)
        return data.decode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind], "replace")


def _find_runtime(pid: int) -> tuple[tuple[int, int], int]:
    """Version and address of _PyRuntime, from the mapped file that defines it."""
    seen: set[str] = set()
    for mapping in read_mappings(pid):
        match = _BINARY.search(mapping.path)
        if not match or mapping.path in seen:
            continue
        seen.add(mapping.path)
        # Before 3.7 there is none. Of those versions only the number is told, and no layout is known.
        address = _symbol_address(pid, mapping, "_PyRuntime") or _symbol_address(pid, mapping, "Py_GetVersion")
        if address:
            major, minor = match[1].split(".")
            return (int(major), int(minor)), address
    raise NotPython


def _symbol_address(pid: int, mapping: Mapping, name: str) -> int:
    """Where a dynamic symbol of a mapped file is in the process; mapping is the file's first one."""
    try:
        with ELF(mapped_file(pid, mapping)) as elf:
            value = elf.symbol(name)
            lowest = min((start - offset for start, offset, _ in elf.segments), default=0)
    except (OSError, ValueError):
        return 0
    # lowest is 0 for a position-independent file and the link address for a fixed one.
    return value - lowest + mapping.start - mapping.offset if value else 0
