"""The folder of a capture: what may be replaced, and that nothing is lost or left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pillion import CaptureError
from pillion._output import CaptureDirectory, command_stem, default_path


def make_capture(path: Path) -> None:
    path.mkdir()
    (path / "meta.json").write_text("{}")


def test_a_folder_that_is_no_capture_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("words")
    with pytest.raises(CaptureError, match="it is not a capture"):
        CaptureDirectory(tmp_path, replace=True)
    with pytest.raises(CaptureError, match="it is not a capture"):
        CaptureDirectory(tmp_path / "thesis", replace=True)


def test_a_dangling_link_is_something_that_exists(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("nowhere")
    with pytest.raises(CaptureError, match="it exists"):
        CaptureDirectory(tmp_path / "out")


def test_discard_puts_back_what_was_to_be_replaced(tmp_path: Path) -> None:
    make_capture(tmp_path / "out")
    output = CaptureDirectory(tmp_path / "out", replace=True)
    os.close(output.create_spool())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["capture.spool"]
    output.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "meta.json").exists()


def test_keep_deletes_what_was_replaced(tmp_path: Path) -> None:
    make_capture(tmp_path / "out")
    output = CaptureDirectory(tmp_path / "out", replace=True)
    os.close(output.create_spool())
    output.keep()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not (tmp_path / "out" / "meta.json").exists()


def test_a_folder_that_appears_meanwhile_is_not_touched(tmp_path: Path) -> None:
    output = CaptureDirectory(tmp_path / "out")
    make_capture(tmp_path / "out")
    with pytest.raises(CaptureError, match=r"cannot write .*out"):
        output.create_spool()
    assert (tmp_path / "out" / "meta.json").exists()


@pytest.mark.parametrize(
    ("command", "stem"),
    [
        (["python", "train.py", "--lr", "1"], "train"),
        (["/usr/bin/python3.11", "-u", "-W", "error", "jobs/train.py"], "train"),
        (["python3", "-m", "package.module", "x"], "module"),
        (["python3", "-c", "pass"], "python3"),
        (["python3"], "python3"),
        (["/opt/bin/torchrun", "train.py"], "torchrun"),
        (["./job.sh"], "job"),
    ],
)
def test_a_capture_is_named_after_what_the_command_line_is_about(command: list[str], stem: str) -> None:
    assert command_stem(command) == stem


def test_the_default_name_has_time_and_process() -> None:
    assert default_path("train", 4821).match("train-????????T??????-p4821.pillion")
