"""What ``import pillion`` gives, and what it does not do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pillion

HEAVY = {"torch", "bcc", "pynvml", "pyarrow", "numpy", "cffi", "_cffi_backend", "psutil", "pillion._native"}


def modules_after(statement: str) -> set[str]:
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    return set(json.loads(subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE).stdout))


def test_all_is_exactly_the_public_names() -> None:
    public = {name for name in vars(pillion) if not name.startswith("_")}
    submodules = {name for name in public if getattr(vars(pillion)[name], "__spec__", None)}
    assert set(pillion.__all__) == set(dir(pillion))
    assert public - submodules <= set(pillion.__all__)


def test_every_public_name_can_be_had() -> None:
    for name in pillion.__all__:
        assert getattr(pillion, name)


def test_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from pillion import *", names)
    assert set(names) - {"__builtins__"} == set(pillion.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(pillion, "porfile")


def test_import_loads_nothing_heavy() -> None:
    assert not modules_after("import pillion") & HEAVY


def test_errors_load_nothing_heavy() -> None:
    assert not modules_after("import pillion; pillion.PillionError") & HEAVY


def test_the_command_line_loads_nothing_heavy_to_explain_itself() -> None:
    statement = (
        "import contextlib, io, pillion.cli\nwith contextlib.redirect_stderr(io.StringIO()):\n pillion.cli.main([])"
    )
    assert not modules_after(statement) & HEAVY


def test_what_is_installed_has_what_python_starts_with() -> None:
    """A folder for PYTHONPATH is no package, and setuptools leaves out what is none."""
    code = """
from setuptools import Distribution
from cffi_build.commands import BuildPackages
distribution = Distribution({"script_name": "setup.py"})
distribution.parse_config_files()
command = BuildPackages(distribution)
command.ensure_finalized()
print(*(name for package, name, _ in command.find_all_modules() if package == "pillion.startup"))
"""
    root = Path(__file__).resolve().parent.parent.parent
    command = [sys.executable, "-W", "ignore", "-c", code]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert set(listed.stdout.split()) == {"pillion_startup", "sitecustomize"}
