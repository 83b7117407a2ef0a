"""The start-up hook in a Python that has another torch than the ones that are known."""

from __future__ import annotations

import os
import shutil
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


REPORT = "import sys; print(sys.path); print('sitecustomize' in sys.modules)"
OTHERS = ("python2.7", "python3.6", "python3.8", "python3.12", "python3.13")


def started(python: str, code: str, *path: Path, ours: bool = True) -> subprocess.CompletedProcess[str]:
    """What a Python says with, or without, what `pillion run` puts into its environment."""
    environment = {"PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"}
    if ours:
        environment["PYTHONPATH"] = os.pathsep.join(map(str, (PACKAGE / "startup", *path)))
        environment["PILLION_LIBRARY"] = str(PACKAGE / "libpillion.so")
    command = [python, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    "theirs",
    [None, "import sys; sys.stderr.write('theirs\\n')", "raise ValueError('theirs')", "import no_such_module", "1 +"],
    ids=["none", "one", "one that fails", "one that misses something", "one that is no Python"],
)
def test_a_python_starts_as_it_does_without_us(tmp_path: Path, theirs: str | None) -> None:
    if theirs:
        (tmp_path / "sitecustomize.py").write_text(theirs)
    for python in [sys.executable, *_other_pythons()]:
        bare, recorded = (started(python, REPORT, tmp_path, ours=ours) for ours in (False, True))
        assert (recorded.stdout, recorded.stderr) == (bare.stdout, bare.stderr), python


def _other_pythons() -> list[str]:
    """Those of the machine, with pyenv's, that start."""
    root = Path.home() / ".pyenv" / "versions"
    names = {name.removeprefix("python"): shutil.which(name) for name in OTHERS}
    for version in list(names):
        names[version] = names[version] or next(map(str, root.glob(f"{version}.*/bin/python")), None)
    found = filter(None, names.values())
    return [
        path for path in found if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0
    ]


def test_a_torch_that_another_finder_finds_is_found(unknown_torch: Path, tmp_path: Path) -> None:
    """An editable install's finder may be the first of all."""
    (unknown_torch / "torch" / "__init__.py").write_text(HEAD + WITH_ITT)
    finder = f"""
import importlib.machinery, sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torch":
            return importlib.machinery.PathFinder.find_spec(name, [{str(unknown_torch)!r}])
sys.meta_path.insert(1, Finder)
import torch
print("imported")
"""
    assert started(sys.executable, finder).stdout == "annotates\nimported\n"


def test_a_torch_that_fails_at_first_is_recorded_when_it_works(unknown_torch: Path) -> None:
    fails_once = "import sys\nif not hasattr(sys, 'again'): sys.again = 1; raise ImportError\n"
    (unknown_torch / "torch" / "__init__.py").write_text(fails_once + HEAD + WITH_ITT)
    code = "try: import torch\nexcept ImportError: print('failed')\nimport torch"
    assert started(sys.executable, code, unknown_torch).stdout == "failed\nannotates\n"


def test_a_folder_called_torch_is_no_torch(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    code = f"import sys; sys.path[:] = [{str(tmp_path)!r}]; import torch; print(list(torch.__path__))"
    done = started(sys.executable, code)
    assert (done.stdout, done.stderr) == (f"[{str(tmp_path / 'torch')!r}]\n", "")
