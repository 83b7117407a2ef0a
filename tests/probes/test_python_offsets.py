"""The offsets that eBPF and the agent read an interpreter by, against that interpreter's own headers."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from pillion_agent.python import LAYOUTS
from pillion_probes import HEADER_PATH

# Name in the eBPF source or in Layout, to what C says it is.
EBPF_311 = {
    "PY311_TSTATE_CFRAME": "offsetof(PyThreadState, cframe)",
    "PY311_CFRAME_FRAME": "offsetof(_PyCFrame, current_frame)",
    "PY311_FRAME_CODE": "offsetof(_PyInterpreterFrame, f_code)",
    "PY311_CODE_INSTRUCTIONS": "offsetof(PyCodeObject, co_code_adaptive)",
}
# struct py311_frame is read in one piece from f_code on.
FRAME_311 = {
    16: "offsetof(_PyInterpreterFrame, previous) - offsetof(_PyInterpreterFrame, f_code)",
    24: "offsetof(_PyInterpreterFrame, prev_instr) - offsetof(_PyInterpreterFrame, f_code)",
}
LAYOUT_311 = {
    "runtime_tss_key": "offsetof(_PyRuntimeState, gilstate.autoTSSkey)",
    "runtime_interpreters": "offsetof(_PyRuntimeState, interpreters.head)",
    "interpreter_threads": "offsetof(PyInterpreterState, threads.head)",
    "thread_id": "offsetof(PyThreadState, thread_id)",
    "code_filename": "offsetof(PyCodeObject, co_filename)",
    "code_qualname": "offsetof(PyCodeObject, co_qualname)",
    "code_linetable": "offsetof(PyCodeObject, co_linetable)",
    "code_firstlineno": "offsetof(PyCodeObject, co_firstlineno)",
    "unicode_ascii": "sizeof(PyASCIIObject)",
    "unicode_compact": "sizeof(PyCompactUnicodeObject)",
}
PROGRAM = """
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>
#include <stdio.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
int main(void) {{ {prints} return 0; }}
"""


@pytest.fixture(scope="module")
def ask_headers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[str]], list[int]]:
    """Values of C expressions, by the headers of the interpreter that runs the tests."""
    if sysconfig.get_python_version() != "3.11":
        pytest.skip("needs the headers of CPython 3.11")
    include = Path(sysconfig.get_path("include"))
    if not (include / "internal" / "pycore_frame.h").exists():
        pytest.skip("needs the interpreter's internal headers (python3-dev)")
    directory = tmp_path_factory.mktemp("offsets")

    def ask(expressions: list[str]) -> list[int]:
        prints = "".join(f'printf("%zu\\n", (size_t)({expression}));' for expression in expressions)
        source, program = directory / "ask.c", directory / "ask"
        source.write_text(PROGRAM.format(prints=prints))
        paths = [f"-I{include}", f"-I{include / 'internal'}"]
        subprocess.run(["gcc", "-w", *paths, "-o", str(program), str(source)], check=True)
        return [int(line) for line in subprocess.check_output([str(program)], text=True).split()]

    return ask


def test_the_walker_in_ebpf(ask_headers: Callable[[list[str]], list[int]]) -> None:
    source = HEADER_PATH.with_name("common.bpf.c").read_text()
    defined = {name: int(value) for name, value in re.findall(r"#define (PY311_\w+) (\d+)", source)}
    assert defined == dict(zip(EBPF_311, ask_headers(list(EBPF_311.values())), strict=True))
    assert list(FRAME_311) == ask_headers(list(FRAME_311.values()))


def test_the_layout_in_the_agent(ask_headers: Callable[[list[str]], list[int]]) -> None:
    layout = LAYOUTS[3, 11]
    found = ask_headers(list(LAYOUT_311.values()))
    assert {name: getattr(layout, name) for name in LAYOUT_311} == dict(zip(LAYOUT_311, found, strict=True))
