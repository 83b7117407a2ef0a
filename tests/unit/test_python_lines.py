"""Lines from CPython's location tables, as the agent reads them, against CPython's own reading."""

from __future__ import annotations

import argparse
import inspect
import json.decoder
import sys
import tarfile
import typing
from collections.abc import Iterator
from types import CodeType, ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillion_agent.python import UNKNOWN, Code

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="needs the tables of CPython 3.11")

UNIT_BYTES = 2


def code_objects(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_objects(constant)


@pytest.mark.parametrize("module", [argparse, inspect, json.decoder, tarfile, typing])
def test_every_instruction_is_on_the_line_that_cpython_says(module: ModuleType) -> None:
    assert module.__file__
    with open(module.__file__, encoding="utf-8") as file:
        whole = compile(file.read(), module.__file__, "exec")
    checked = 0
    for code in code_objects(whole):
        ours = Code(code.co_qualname, code.co_filename, code.co_firstlineno, code.co_linetable)
        for start, end, line in code.co_lines():
            expected = code.co_firstlineno if line is None else line
            for instruction in range(start // UNIT_BYTES, end // UNIT_BYTES):
                assert ours.line(instruction) == expected, (code.co_qualname, instruction)
                checked += 1
    assert checked > 1_000


@given(st.binary(max_size=64), st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**16 - 1))
def test_any_bytes_will_do_for_a_table(table: bytes, first_line: int, instruction: int) -> None:
    assert -(2**31) <= Code("f", "f.py", first_line, table).line(instruction) < 2**31


def test_an_instruction_beyond_the_table_is_on_the_first_line() -> None:
    code = (lambda: None).__code__
    assert Code("f", "f.py", 4711, code.co_linetable).line(60_000) == 4711
    assert UNKNOWN.line(3) == 0
