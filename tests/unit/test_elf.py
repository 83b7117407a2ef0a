"""The agent's readers of ELF files: true answers about true files, one kind of error for damaged ones."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pillion
from pillion._native import ffi, lib
from pillion_agent.elf import ELF
from pillion_agent.procfs import Mapping, read_mappings
from pillion_agent.usdt import library_path, read_probes

LIBRARY = Path(pillion.__file__).with_name("libpillion.so")
IMAGE = LIBRARY.read_bytes()
HEADER_BYTES = 64
NAME_BYTES = 256


def section_header_places() -> Iterator[int]:
    """Where in the file each section header starts."""
    (offset,) = struct.unpack_from("<Q", IMAGE, 0x28)
    size, count = struct.unpack_from("<HH", IMAGE, 0x3A)
    yield from range(offset, offset + size * count, size)


# Where an ELF file says where things are: a change there matters more than one in its code.
HEADERS = [*range(HEADER_BYTES), *(at + i for at in section_header_places() for i in range(64))]
VALUES = st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)
DAMAGE = st.dictionaries(st.sampled_from(HEADERS) | st.integers(0, len(IMAGE) - 1), VALUES, max_size=24)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file to write damaged images to."""
    return tmp_path_factory.mktemp("elf") / "damaged.so"


def damage(changes: dict[int, int], size: int) -> bytes:
    image = bytearray(IMAGE)
    for at, value in changes.items():
        image[at] = value
    return bytes(image[:size])


@settings(max_examples=500, deadline=None)
@given(DAMAGE, st.just(len(IMAGE)) | st.integers(0, len(IMAGE)))
def test_a_damaged_file_is_an_error_that_its_readers_expect(damaged: Path, changes: dict[int, int], size: int) -> None:
    damaged.write_bytes(damage(changes, size))
    try:
        with ELF(damaged) as elf:
            elf.symbol("pln_begin")
            elf.symbol("pln_begin", static=True)
            elf.file_offset(0x1000)
        read_probes(damaged)
    except (OSError, ValueError):
        pass


@settings(max_examples=500, deadline=None)
@given(DAMAGE, st.just(len(IMAGE)) | st.integers(0, len(IMAGE)), st.integers(0, 2**64 - 1))
def test_a_damaged_file_has_symbols_or_not(damaged: Path, changes: dict[int, int], size: int, offset: int) -> None:
    damaged.write_bytes(damage(changes, size))
    error = ffi.new("int *")
    symbols = lib.pln_symbols_open(bytes(damaged), error)
    if not symbols:
        assert error[0] != 0
        return
    for place in (offset, offset % len(IMAGE)):
        symbol_name(symbols, place)
    lib.pln_symbols_close(symbols)


def symbol_name(symbols: object, offset: int) -> str:
    name = ffi.new("char[]", NAME_BYTES)
    length = lib.pln_symbols_name(symbols, lib.pln_symbols_find(symbols, offset), name, NAME_BYTES)
    assert length < NAME_BYTES
    return ffi.string(name)[:length].decode(errors="replace")


def mapping_of(address: int) -> Mapping:
    (found,) = (mapping for mapping in read_mappings(os.getpid()) if mapping.start <= address < mapping.end)
    return found


def address_of(library: ctypes.CDLL, function: str) -> int:
    address = ctypes.cast(library[function], ctypes.c_void_p).value
    assert address
    return address


@pytest.mark.parametrize("function", ["pln_begin", "pln_end", "pln_setup"])
def test_a_function_of_this_process_is_found_by_its_address(function: str) -> None:
    address = address_of(ctypes.CDLL(str(LIBRARY)), function)
    mapping = mapping_of(address)
    symbols = lib.pln_symbols_open(os.fsencode(mapping.path), ffi.new("int *"))
    offset = address - mapping.start + mapping.offset
    assert symbol_name(symbols, offset) == function
    assert symbol_name(symbols, offset + 1) == function
    lib.pln_symbols_close(symbols)
    with ELF(LIBRARY) as elf:
        assert elf.file_offset(elf.symbol(function)) == offset


def test_a_function_of_libc_is_found_by_its_address() -> None:
    address = address_of(ctypes.CDLL(None), "qsort")
    mapping = mapping_of(address)
    symbols = lib.pln_symbols_open(os.fsencode(mapping.path), ffi.new("int *"))
    assert "qsort" in symbol_name(symbols, address - mapping.start + mapping.offset)
    lib.pln_symbols_close(symbols)


def test_a_symbol_that_is_not_there_is_0() -> None:
    with ELF(LIBRARY) as elf:
        assert elf.symbol("pln_no_such_function") == 0
        assert elf.file_offset(0) == 0 or elf.segments[0][0] == 0
        assert elf.file_offset(1 << 60) == 0


def test_the_librarys_probes_are_read() -> None:
    probes = {probe.name: probe for probe in read_probes(LIBRARY)}
    assert set(probes) == {"range", "mark", "thread", "notice", "activity", "activities", "launch"}
    for probe in probes.values():
        assert probe.provider == "pillion"
        assert IMAGE[probe.location] == 0x90  # a nop
        assert IMAGE[probe.semaphore : probe.semaphore + 2] == b"\0\0"
        assert len(probe.arguments) == (2 if probe.name == "activities" else 3)
        assert all(argument.form == lib.PLN_ARG_REGISTER for argument in probe.arguments)
    assert len({probe.semaphore for probe in probes.values()}) == len(probes)
    assert library_path() == LIBRARY


@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "missing", "text"])
def test_what_is_no_elf_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "text":
        path.write_text("no ELF")
    with pytest.raises((OSError, ValueError)):
        ELF(path)
    error = ffi.new("int *")
    assert not lib.pln_symbols_open(bytes(path), error)
    assert error[0] != 0


def test_a_refused_file_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for content in (b"", b"no ELF", IMAGE[:100]):
        path = tmp_path / "file"
        path.write_bytes(content)
        for _ in range(7):
            with pytest.raises(ValueError):  # noqa: PT011 - the message names the file and the damage
                ELF(path)
            assert not lib.pln_symbols_open(bytes(path), ffi.new("int *"))
    assert len(os.listdir("/proc/self/fd")) == before
