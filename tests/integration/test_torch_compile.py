"""Ranges in what torch compiles: whether and where they are recorded is as with torch's own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

import torch._dynamo as compiler  # noqa: E402
from torch.autograd import profiler as theirs  # noqa: E402

from pillion import profiler as ours  # noqa: E402

BOTH = pytest.mark.parametrize("module", [theirs, ours], ids=lambda module: module.__name__)


@pytest.fixture(autouse=True)
def fresh_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETO_LOG_LEVEL", "6")
    compiler.reset()


def double(module: Any) -> Any:
    def call(x: Any) -> Any:
        with module.record_function("double", "twice"):
            return x * 2

    return call


def decorated(module: Any) -> Any:
    @module.record_function("double")
    def call(x: Any) -> Any:
        return x * 2

    return lambda x: call(x) + 0


def seen(module: Any, call: Any) -> list[str]:
    x = torch.ones(3)
    call(x)
    with module.profile() as prof:
        assert call(x).tolist() == [2.0, 2.0, 2.0]
    names = [event.name for event in prof.function_events]
    return [name for name in names if name in ("double", "aten::mul") or name.startswith("Torch-Compiled Region")]


@BOTH
@pytest.mark.parametrize("make", [double, decorated])
def test_a_range_leaves_the_graph_whole(module: Any, make: Any) -> None:
    call = torch.compile(make(module), backend="eager", fullgraph=True)
    assert seen(module, call) == ["Torch-Compiled Region: 0/0", "aten::mul"]


@BOTH
def test_a_range_is_in_the_graph_where_torch_is_asked_for_it(module: Any) -> None:
    with compiler.config.patch(capture_profiler_record_function=True):
        names = seen(module, torch.compile(double(module), backend="eager", fullgraph=True))
    assert names == ["Torch-Compiled Region: 0/0", "double", "aten::mul"]


_IMPORTS = {
    "before torch": "from pillion import record_function; import torch",
    "before the compiler": "import torch; from pillion import record_function",
    "after the compiler": "import torch, torch._dynamo; from pillion import record_function",
}


@pytest.mark.parametrize("imports", _IMPORTS.values(), ids=_IMPORTS)
def test_it_does_not_matter_who_is_imported_first(imports: str) -> None:
    job = f"""
import sys
{imports}
def call(x):
    with record_function("r"): return x * 2
print(torch.compile(call, backend="eager", fullgraph=True)(torch.ones(2)).tolist())
assert not any("pillion" in type(finder).__module__ for finder in sys.meta_path)
"""
    run = subprocess.run([sys.executable, "-c", job], capture_output=True, text=True, timeout=120, check=False)
    assert (run.returncode, run.stdout) == (0, "[2.0, 2.0]\n"), run.stderr
