"""Operands of USDT notes: each form means what the assembler means by it, and whatever else is no argument."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillion._native import ffi, lib
from pillion_agent.operands import Argument, parse_operand

SYMBOLS = {"table": 0x4000, "table.1": 0x5000, "_x": 0x6000}
LOCATION = 0x1230
NONE = lib.PLN_NO_REGISTER
REGISTER_BYTES = {"r15": 0, "rbp": 32, "rbx": 40, "r8": 72, "rax": 80, "rcx": 88, "rsi": 104, "rip": 128, "rsp": 152}


def parse(operand: str, relocatable: bool = True) -> Argument:
    return parse_operand(operand, LOCATION, lambda name: SYMBOLS.get(name, 0), relocatable)


def memory(size: int, value: int, base: int = NONE, index: int = NONE, shift: int = 0) -> Argument:
    return Argument(lib.PLN_ARG_MEMORY, size, False, value, base, index, shift)


@pytest.mark.parametrize(
    ("names", "place"),
    [
        (("rax", "eax", "ax", "al"), 80),
        (("rbx", "ebx", "bx", "bl"), 40),
        (("rsi", "esi", "si", "sil"), 104),
        (("rdi", "edi", "di", "dil"), 112),
        (("rbp", "ebp", "bp", "bpl"), 32),
        (("rsp", "esp", "sp", "spl"), 152),
        (("r8", "r8d", "r8w", "r8b"), 72),
        (("r15", "r15d", "r15w", "r15b"), 0),
    ],
)
def test_every_part_of_a_register_is_where_the_register_is(names: tuple[str, ...], place: int) -> None:
    for name, size in zip(names, (8, 4, 2, 1)):
        assert parse(f"{size}@%{name}") == Argument(lib.PLN_ARG_REGISTER, size, False, base=place)
        assert parse(f"-{size}@%{name}") == Argument(lib.PLN_ARG_REGISTER, size, True, base=place)


@pytest.mark.parametrize(("name", "place"), [("ah", 81), ("bh", 41), ("ch", 89), ("dh", 97)])
def test_the_high_byte_of_a_register_is_its_second(name: str, place: int) -> None:
    assert parse(f"1@%{name}").base == place


@pytest.mark.parametrize(
    ("operand", "argument"),
    [
        ("4@(%rax)", memory(4, 0, 80)),
        ("4@-20(%rbp)", memory(4, -20, 32)),
        ("8@0x10(%rsp)", memory(8, 16, 152)),
        ("8@(%rax,%rcx)", memory(8, 0, 80, 88)),
        ("8@(%rax,%rcx,8)", memory(8, 0, 80, 88, 3)),
        ("2@-4(%rax,%rcx,2)", memory(2, -4, 80, 88, 1)),
        ("1@8(,%rcx,4)", memory(1, 8, NONE, 88, 2)),
        ("8@table(%rip)", memory(8, 0x4000 - LOCATION, 128)),
        ("8@table+8(%rip)", memory(8, 0x4008 - LOCATION, 128)),
        ("8@_x(%rip)", memory(8, 0x6000 - LOCATION, 128)),
        ("8@$5", Argument(lib.PLN_ARG_CONSTANT, 8, False, 5)),
        ("-4@$-3", Argument(lib.PLN_ARG_CONSTANT, 4, True, -3)),
        ("8@$0x7f", Argument(lib.PLN_ARG_CONSTANT, 8, False, 127)),
        ("8@$18446744073709551615", Argument(lib.PLN_ARG_CONSTANT, 8, False, -1)),
    ],
)
def test_a_place_is_what_the_assembler_means(operand: str, argument: Argument) -> None:
    assert parse(operand) == argument


@pytest.mark.parametrize(
    ("operand", "argument"),
    [
        ("8@table", memory(8, 0x4000)),
        ("8@table+8", memory(8, 0x4008)),
        ("8@-8+table.1+4", memory(8, 0x4FFC)),
        ("8@table(,%rcx,8)", memory(8, 0x4000, NONE, 88, 3)),
        ("8@$table", Argument(lib.PLN_ARG_CONSTANT, 8, False, 0x4000)),
    ],
)
def test_an_address_is_known_only_where_the_program_cannot_move(operand: str, argument: Argument) -> None:
    assert parse(operand, relocatable=False) == argument
    assert not parse(operand).known


@pytest.mark.parametrize(
    "operand",
    [
        *(
            "",
            "8@",
            "@%rax",
            "8@%",
            "3@%rax",
            "16@%rax",
            "8f@%xmm0",
            "8@%xmm0",
            "8@%rzx",
            "8@%fs:0x10",
            "%rax",
            "8@rax",
        ),
        *("8@(%eax)", "8@(%rax", "8@8(%rax))", "8@(%rax,%rcx,3)", "8@(%rax,%ecx)", "8@()x", "8@unknown(%rip)"),
        *("8@$unknown", "8@table@GOTPCREL(%rip)", "8@$5$6", "8@$5 6", "8@1 2(%rax)", "8@table table(%rip)"),
    ],
)
def test_what_cannot_be_read_is_no_argument(operand: str) -> None:
    for relocatable in (True, False):
        assert not parse(operand, relocatable).known


@given(st.text("0123456789-+x@%$(),.abcdefrsptil ", max_size=40), st.booleans())
def test_any_text_is_an_argument_that_fits_into_the_map_or_none(text: str, relocatable: bool) -> None:
    native = ffi.new("struct pln_probe_arg *")
    parse(text, relocatable).fill(native)
    assert native.size in (1, 2, 4, 8)
    assert native.base <= 152 or native.base == NONE
    assert native.index <= 152 or native.index == NONE


@given(
    st.sampled_from([1, 2, 4, 8]),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from(sorted(REGISTER_BYTES)),
    st.sampled_from(["rax", "rcx", "r8", "r15"]),
    st.sampled_from([1, 2, 4, 8]),
)
def test_every_form_of_memory_is_understood(size: int, offset: int, base: str, index: str, scale: int) -> None:
    found = parse(f"{size}@{offset}(%{base},%{index},{scale})")
    value = offset - (LOCATION if base == "rip" else 0)
    assert found == memory(size, value, REGISTER_BYTES[base], REGISTER_BYTES[index], scale.bit_length() - 1)
