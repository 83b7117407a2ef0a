"""The kernel's type information: a true file, and files that are none."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion_agent.btf import BTF, VMLINUX

HEADER = struct.Struct("<HBBIIIII")
STRUCT, BITFIELDS = 4 << 24, 1 << 31
STRINGS = b"\0task_struct\0pid\0flags\0comm\0"


def name(text: str) -> int:
    return STRINGS.index(b"\0" + text.encode() + b"\0") + 1


def image(members: list[tuple[str, int]], kind_flag: int = 0) -> bytes:
    """A BTF file with one struct, task_struct, of members (name, bit offset)."""
    types = struct.pack("<III", name("task_struct"), STRUCT | kind_flag | len(members), 64)
    for member, bits in members:
        types += struct.pack("<III", name(member), 0, bits)
    return HEADER.pack(0xEB9F, 1, 0, HEADER.size, 0, len(types), len(types), len(STRINGS)) + types + STRINGS


SANE = image([("pid", 64), ("comm", 128)])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("btf") / "vmlinux"


def test_members_are_found_by_name(path: Path) -> None:
    path.write_bytes(SANE)
    btf = BTF(path)
    assert btf.member_offset("task_struct", "pid") == 8
    assert btf.member_offset("task_struct", "comm") == 16


def test_a_struct_with_bitfields_has_the_size_above_the_offset(path: Path) -> None:
    path.write_bytes(image([("pid", 64), ("flags", 3 << 24 | 96)], BITFIELDS))
    btf = BTF(path)
    assert (btf.member_offset("task_struct", "pid"), btf.member_offset("task_struct", "flags")) == (8, 12)


@pytest.mark.parametrize(("struct_name", "member"), [("no_struct", "pid"), ("task_struct", "no_member")])
def test_what_the_kernel_has_not_got_is_said(path: Path, struct_name: str, member: str) -> None:
    path.write_bytes(SANE)
    with pytest.raises(LookupError, match=r"no_struct|no_member"):
        BTF(path).member_offset(struct_name, member)


@pytest.mark.parametrize("content", [b"", b"garbage", SANE[:20], SANE[1::-1] + SANE[2:], bytes(4096)])
def test_what_is_no_little_endian_btf_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not little-endian BTF"):
        BTF(path)


def test_a_kernel_without_btf_is_an_oserror(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        BTF(path.with_name("missing"))


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.integers(2, len(SANE) - 1), st.integers(0, 255), max_size=16),
    st.just(len(SANE)) | st.integers(0, len(SANE)),
)
def test_a_damaged_file_is_an_error_that_the_agent_expects(path: Path, changes: dict[int, int], size: int) -> None:
    content = bytearray(SANE)
    for at, value in changes.items():
        content[at] = value
    path.write_bytes(content[:size])
    with contextlib.suppress(ValueError, LookupError):
        assert BTF(path).member_offset("task_struct", "pid") >= 0


@pytest.mark.skipif(not VMLINUX.exists(), reason="needs a kernel with BTF")
def test_the_running_kernel_knows_what_the_programs_read() -> None:
    btf = BTF()
    offsets = {member: btf.member_offset("task_struct", member) for member in ("pid", "tgid", "comm", "thread", "se")}
    assert len(set(offsets.values())) == len(offsets)
    assert offsets["tgid"] == offsets["pid"] + 4
