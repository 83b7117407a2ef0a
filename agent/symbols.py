"""Addresses to functions, while the process lives: kernel, native and Python."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from pillion._native import ffi, lib
from pillion_agent.process import Process
from pillion_agent.procfs import Mapping, mapped_file

# All symbol tables together. libtorch_cpu.so takes 8 MB, a job with CUDA about 40.
_MAX_TABLE_BYTES = 64 << 20
_NAME_BYTES = 16384  # a lambda in a template of libtorch has 1,700
_TRACING_FRAMES = 8  # bpf_prog_…_on_switch, bpf_trace_run4 and the like; the deepest seen was 4


class Frame(NamedTuple):
    """A line of a stack, as a spool's "frame" object says it."""

    kind: str
    name: str
    file: str
    line: int
    module: str


UNKNOWN_NATIVE = Frame("native", "[unknown]", "", 0, "")


class _Tables:
    """Symbol tables by file, shared by all processes that map it; the least recently used go first."""

    def __init__(self) -> None:
        self._tables: OrderedDict[tuple[int, int, int], _Table] = OrderedDict()

    def find(self, path: Path, offset: int) -> str:
        """The function at a file offset, named as the file does: the client demangles. Empty where none is known."""
        try:
            status = path.stat()
        except OSError:
            return ""
        key = (status.st_dev, status.st_ino, status.st_mtime_ns)
        if key not in self._tables:
            self._tables[key] = _Table(path)
            while len(self._tables) > 1 and sum(table.size_bytes for table in self._tables.values()) > _MAX_TABLE_BYTES:
                self._tables.popitem(last=False)[1].close()
        self._tables.move_to_end(key)
        return self._tables[key].find(offset)


class _Table:
    """The function symbols of one file; a file without any has none."""

    def __init__(self, path: Path) -> None:
        self._symbols = lib.pln_symbols_open(bytes(path), ffi.new("int *"))
        self._names: dict[int, str] = {}
        self.size_bytes = int(lib.pln_symbols_bytes(self._symbols)) if self._symbols else 0

    def find(self, offset: int) -> str:
        symbol = lib.pln_symbols_find(self._symbols, offset) if self._symbols else -1
        if symbol < 0:
            return ""
        if symbol not in self._names:
            room = ffi.new("char[]", _NAME_BYTES)
            length = lib.pln_symbols_name(self._symbols, symbol, room, _NAME_BYTES)
            self._names[symbol] = ffi.string(room).decode(errors="replace") if length else ""
        return self._names[symbol]

    def close(self) -> None:
        if self._symbols:
            lib.pln_symbols_close(self._symbols)


def _kernel_name(address: int) -> str:
    from bcc import BPF

    return str(BPF.ksym(address).decode(errors="replace"))


class Symbolizer:
    """Resolves the frames of new stacks. One for the whole agent: what one session resolved serves the next."""

    def __init__(self) -> None:
        self._tables = _Tables()
        self._kernel: dict[int, Frame] = {}
        # bcc reads /proc/kallsyms at the first question, for 0.1 to 0.3 s in which nothing would be drained.
        self._kernel_ready = threading.Thread(target=_kernel_name, args=(0,), daemon=True)
        self._kernel_ready.start()

    def kernel(self, address: int) -> Frame:
        if address not in self._kernel:
            self._kernel_ready.join()
            self._kernel[address] = Frame("kernel", _kernel_name(address), "", 0, "kernel")
        return self._kernel[address]

    def native(self, process: Process, address: int, leaf: bool) -> Frame | None:
        """None where the process has no code at the address: what follows in the stack is no stack."""
        if address in process.native_frames:
            return process.native_frames[address]
        mapping = process.code_mapping(address, time.monotonic_ns(), leaf)
        if not mapping:
            return None
        frame = self._native_frame(process.info.pid, mapping, address)
        process.native_frames[address] = frame
        return frame

    def _native_frame(self, pid: int, mapping: Mapping, address: int) -> Frame:
        if not mapping.path.startswith("/"):
            module = mapping.path.strip("[]") or "generated code"  # a JIT's: oneDNN makes its kernels so
            return Frame("native", f"[{module}]", "", 0, module)
        module = mapping.path.rsplit("/", 1)[-1]
        name = self._tables.find(mapped_file(pid, mapping), address - mapping.start + mapping.offset)
        return Frame("native", name or f"[{module}]", "", 0, module)

    def stack(self, process: Process | None, kernel: list[int], native: list[int], python: list[int]) -> list[Frame]:
        """A whole stack, leaf first: kernel, native, Python.

        What cannot be named, of a process that has gone say, is one unknown frame.
        """
        frames = [self.kernel(address) for address in kernel]
        frames = frames[_own_frames(frames) :]
        if not process:
            return [*frames, UNKNOWN_NATIVE]
        for depth, address in enumerate(native):
            found = self.native(process, address, leaf=depth == 0)
            if not found:
                break
            frames.append(found)
        frames.extend(self.python(process, packed) for packed in python)
        return frames or [UNKNOWN_NATIVE]

    def python(self, process: Process, packed: int) -> Frame:
        """A frame as eBPF packs it: code object | instruction index << 48."""
        if packed in process.python_frames:
            return process.python_frames[packed]
        code = process.python_code(packed & 0xFFFFFFFFFFFF)
        frame = Frame("python", code.name, code.file, code.line(packed >> 48), "")
        if code.file:
            process.python_frames[packed] = frame
        return frame


def _own_frames(frames: list[Frame]) -> int:
    """How many of the leaf-most kernel frames are our own tracing: a wait's stack begins at the scheduler."""
    for index, frame in enumerate(frames[:_TRACING_FRAMES]):
        if frame.name in ("__schedule", "schedule", "__traceiter_sched_switch"):
            return index
    return 0
