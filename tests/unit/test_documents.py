"""What the documents show runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from export_captures import device_capture

from pillion._capture import FORMAT, save_capture

ROOT = Path(__file__).parents[2]
DIFFERENCES = ROOT / "docs" / "differences-to-torch.md"


def shown(document: Path, language: str) -> list[str]:
    """The code of a document in its order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(), re.DOTALL | re.MULTILINE)


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One block goes on where the other ended; there are batches, and the capture that it opens."""
    monkeypatch.chdir(tmp_path)
    blocks = shown(ROOT / "README.md", "python")
    for name in re.findall(r'pillion\.open\("(.+?)"\)', "".join(blocks)):
        capture = device_capture()
        capture.meta |= {"format": FORMAT, "collector": "import", "source": "kineto", "file": name}
        save_capture(capture, tmp_path / name)
    names: dict[str, Any] = {"batches": range(3)}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert len(blocks) >= 2
    assert (tmp_path / "trace.json").exists()


def test_every_shell_line_of_the_differences_is_one_that_is_run() -> None:
    """test_profiler.py runs those that begin with python -c."""
    lines = shown(DIFFERENCES, "sh")
    assert len(lines) > 10
    assert all(line.startswith('python -c "') and line.endswith('"\n') for line in lines)
