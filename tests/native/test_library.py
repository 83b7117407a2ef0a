"""What the shared library shows to a linker and to a tracer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pillion._native as native

LIBRARY = Path(native.__file__).with_name("libpillion.so")
PROBES = ("range", "mark", "thread", "notice", "activity", "activities", "launch")


def test_only_pln_symbols_are_visible() -> None:
    output = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--format=just-symbols", LIBRARY], stdout=subprocess.PIPE, check=True
    ).stdout
    others = {name for name in output.decode().split() if not name.startswith("pln_")}
    calls = {"InitializeInjection", "InitializeInjectionNvtx2", "__itt_api_init"}
    assert others == calls, "what CUDA, NVTX and ITT call, and nothing else"


def _notes() -> str:
    return subprocess.run(["readelf", "--notes", LIBRARY], stdout=subprocess.PIPE, check=True, text=True).stdout


def test_each_probe_has_one_location_and_a_semaphore() -> None:
    notes = _notes()
    assert [notes.count(f"Name: {probe}\n") for probe in PROBES] == [1] * len(PROBES)
    assert notes.count("Provider: pillion\n") == len(PROBES)
    assert "Semaphore: 0x0000000000000000" not in notes


def test_a_probe_keeps_nothing_below_the_stack_pointer() -> None:
    """Where the nop has five bytes the kernel makes it a call: see usdt.c. So it stands alone in a function."""
    command = ["objdump", "--disassemble", "--no-show-raw-insn", "--section=.text", LIBRARY]
    text = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    for probe in PROBES:
        (function,) = (part for part in text.split("\n\n") if f"<probe_{probe}>:\n" in part)
        code = [line.split("\t", 1)[1].split()[0] for line in function.splitlines()[1:]]
        code = code[: code.index("ret") + 1]
        assert [word for word in code if word not in ("nop", "nopl", "endbr64")] == ["ret"], function
        assert set(code) & {"nop", "nopl"}


def test_both_modules_use_the_one_library() -> None:
    code = """
import pillion._range
import pillion._native
print(len({line.split()[4] for line in open("/proc/self/maps") if "libpillion.so" in line}))
"""
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout == b"1\n"


def test_a_tracer_alone_makes_ranges_but_no_records(alone: Callable[..., Any]) -> None:
    semaphore = _notes().split("Name: range\n")[1].split("Semaphore: ")[1].split()[0]
    code = f"""
import ctypes
lines = [line.split() for line in open("/proc/self/maps") if "libpillion.so" in line]
base = min(int(line[0].split("-")[0], 16) for line in lines)
assert not lib.pln_active()
semaphore = ctypes.c_ushort.from_address(base + {semaphore})
semaphore.value += 1
reader = lib.pln_reader_open(lib.pln_region_fd(), 1, 1, ffi.new("int *"))
with _Range("outer"):
    active = lib.pln_active()
    with _Range("inner"):
        pass
    semaphore.value -= 1
lib.pln_reader_begin(reader, lib.PLN_CONSUMER_AGENT)
print((active, lib.pln_active(), lib.pln_reader_drain(reader, ffi.NULL, 0), lib.pln_reader_ring_count(reader)))
"""
    assert alone(code) == (1, 1, 0, 1)
