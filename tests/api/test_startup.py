"""The start-up hook in a Python that has another torch than the ones that are known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pillion

PACKAGE = Path(pillion.__file__).parent
HEAD = """
import ctypes, os
__version__ = "99.0"
ctypes.CDLL(os.path.join(os.path.dirname(__file__), "lib", "libtorch_cpu.so"))
"""
WITH_ITT = """
class _Emit:
    def __enter__(self):
        print("annotates")
class autograd:
    class profiler:
        emit_itt = _Emit
"""


@pytest.fixture
def unknown_torch(tmp_path: Path) -> Path:
    """A package torch whose library has none of torch's symbols."""
    library = tmp_path / "torch" / "lib" / "libtorch_cpu.so"
    library.parent.mkdir(parents=True)
    subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", str(library)], check=True)
    return tmp_path


def imported(torch: Path, text: str) -> tuple[str, str]:
    (torch / "torch" / "__init__.py").write_text(HEAD + text)
    done = subprocess.run(
        [sys.executable, "-c", "import torch; print('imported')"],
        env={
            "PYTHONPATH": f"{PACKAGE / 'startup'}:{torch}",
            "PILLION_LIBRARY": str(PACKAGE / "libpillion.so"),
            "PILLION_SOCKET": "/nonexistent",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr


def test_a_torch_without_a_symbol_is_named_with_it_and_annotates_its_operators(unknown_torch: Path) -> None:
    said = "pillion: only the main thread's operators of torch 99.0: it has no _ZNK2at14RecordFunction4nameEv\n"
    assert imported(unknown_torch, WITH_ITT) == ("annotates\nimported\n", said)


def test_a_torch_without_annotations_either_is_imported_all_the_same(unknown_torch: Path) -> None:
    output, said = imported(unknown_torch, "")
    assert output == "imported\n"
    assert said.startswith("pillion: no operators of torch 99.0: it has no _ZNK2at14RecordFunction4nameEv, nor ITT: ")
