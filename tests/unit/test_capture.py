"""A capture on disk: written whole or not at all, read back the same, refused where it is damaged."""

from __future__ import annotations

import errno
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spool_writer import training_spool

from pillion._capture import SPOOL_NAME, Capture, open_capture, write_capture
from pillion._errors import CaptureError, PillionError, Unavailable, UsageError
from pillion._tables import SCHEMAS


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with a spool, as a recording leaves it."""
    path = tmp_path / "job.pillion"
    path.mkdir()
    (path / SPOOL_NAME).write_bytes(training_spool())
    return path


@pytest.fixture
def written(directory: Path) -> Path:
    write_capture(directory / SPOOL_NAME, directory)
    return directory


def test_what_is_written_is_read_back(written: Path, training: Capture) -> None:
    capture = open_capture(written)
    assert {name: table.to_pylist() for name, table in capture.tables.items()} == {
        name: table.to_pylist() for name, table in training.tables.items()
    }
    assert capture.meta == training.meta
    assert capture.meta["recovered"] is False
    assert capture.key_averages().table() == training.key_averages().table()


def test_the_directory_holds_a_stream_for_each_table(written: Path) -> None:
    assert sorted(os.listdir(written)) == sorted([*(f"{name}.arrow" for name in SCHEMAS), "meta.json"])
    events = pa.ipc.open_stream((written / "events.arrow").read_bytes()).read_all()
    assert events.column("start_ns").to_pylist() == [1_000, 1_100, 1_500, 1_200]


def test_a_recording_that_did_not_finish_is_recovered(directory: Path) -> None:
    spool = directory / SPOOL_NAME
    spool.write_bytes(spool.read_bytes()[:-1])  # the last block is lost, and with it the end
    capture = open_capture(directory)
    assert capture.meta["recovered"] is True
    assert capture.events.num_rows == 4
    kinds = capture.losses.column("kind").to_pylist()
    assert "spool_truncated" in kinds
    assert "unfinished" in kinds
    assert "recovered from a recording that did not finish" in capture.function_events.table()
    assert spool.exists()


def test_a_capture_can_be_written_from_a_file_without_a_name(tmp_path: Path) -> None:
    with open(tmp_path / "spool", "w+b") as file:
        file.write(training_spool())
        file.flush()
        os.unlink(tmp_path / "spool")
        write_capture(file, tmp_path / "job.pillion")
    assert open_capture(tmp_path / "job.pillion").events.num_rows == 4


def test_a_full_disk_keeps_the_spool(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(source: Any, target: Any) -> None:
        if str(target).endswith("meta.json"):
            raise OSError(errno.ENOSPC, "No space left on device")
        os.rename(source, target)

    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(CaptureError, match=r"No space left on device; what was recorded is kept in .*capture\.spool"):
        write_capture(directory / SPOOL_NAME, directory)
    assert not [name for name in os.listdir(directory) if name.endswith(".part")]
    assert open_capture(directory).meta["recovered"] is True


def test_an_error_in_the_middle_of_a_table_keeps_the_spool(directory: Path) -> None:
    (directory / "stacks.arrow").mkdir()  # cannot be replaced by a file
    with pytest.raises(CaptureError, match=r"kept in .*capture\.spool"):
        write_capture(directory / SPOOL_NAME, directory)
    assert (directory / SPOOL_NAME).exists()


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="there is no such folder"):
        open_capture(tmp_path / "none")


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_what_is_no_capture_is_refused(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "thing")
    with pytest.raises(CaptureError, match=r"thing is no capture"):
        open_capture(tmp_path / "thing")


@pytest.mark.parametrize(
    ("meta", "cause"),
    [
        ("{", "meta.json is damaged"),
        ("[]", "its format is None"),
        ('{"format": 2}', "its format is 2"),
        ("\xff", "damaged"),
    ],
)
def test_a_damaged_or_newer_meta_is_refused(written: Path, meta: str, cause: str) -> None:
    (written / "meta.json").write_text(meta, encoding="latin-1")
    with pytest.raises(CaptureError, match=cause):
        open_capture(written)


@pytest.mark.parametrize("table", SCHEMAS)
def test_a_missing_or_damaged_table_is_refused(written: Path, table: str) -> None:
    path = written / f"{table}.arrow"
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"not arrow at all"):
        path.write_bytes(damaged)
        with pytest.raises(CaptureError, match=f"{table}.arrow is damaged"):
            open_capture(written)
    path.unlink()
    with pytest.raises(CaptureError, match=f"{table}.arrow is damaged"):
        open_capture(written)


def rewrite(directory: Path, table: str, **columns: list[Any]) -> None:
    """Replace columns of a table on disk."""
    path = directory / f"{table}.arrow"
    old = pa.ipc.open_stream(path.read_bytes()).read_all()
    for name, values in columns.items():
        old = old.set_column(old.column_names.index(name), name, pa.array(values, old.column(name).type))
    with pa.ipc.new_stream(str(path), old.schema) as stream:
        stream.write_table(old)


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("events", {"name": [0, 0, 0, 99]}),
        ("events", {"parent": [-1, 0, 0, 77]}),
        ("events", {"parent": [-1, 0, 0, -2]}),
        ("events", {"parent": [1, 0, 0, -1]}),
        ("events", {"parent": [-1, None, 0, -1]}),
        ("samples", {"stack": [1, 1, 5]}),
        ("samples", {"range_name": [-1, 0, 0]}),
        ("waits", {"event": [4]}),
        ("stacks", {"frames": [[], [1], [99]]}),
    ],
)
def test_tables_that_do_not_fit_each_other_are_refused(written: Path, table: str, columns: dict[str, Any]) -> None:
    rewrite(written, table, **columns)
    with pytest.raises(CaptureError, match=f"cannot read the table {table}"):
        open_capture(written)


def test_a_column_that_is_missing_is_refused(written: Path) -> None:
    path = written / "waits.arrow"
    table = pa.ipc.open_stream(path.read_bytes()).read_all().drop_columns(["state"])
    with pa.ipc.new_stream(str(path), table.schema) as stream:
        stream.write_table(table)
    with pytest.raises(CaptureError, match="column state"):
        open_capture(written)


def test_tables_of_several_batches_are_read(written: Path) -> None:
    for path in written.glob("*.arrow"):
        table = pa.ipc.open_stream(path.read_bytes()).read_all()
        with pa.ipc.new_stream(str(path), table.schema) as stream:
            stream.write_table(table, max_chunksize=1)
    capture = open_capture(written)
    assert capture.events.num_rows == 4
    assert capture.stacks.column("frames").to_pylist() == [[], [2, 1, 0], [5, 6, 7, 8, 0]]


def test_the_meta_tells_what_was_recorded(training: Capture) -> None:
    assert training.meta["cost"] == {"cpu_ns": 50, "wall_ns": 1_000, "rss_bytes": 1 << 20}
    assert (training.meta["start_ns"], training.meta["end_ns"], training.meta["reason"]) == (1_000, 2_000, "finish")
    assert json.loads(json.dumps(training.meta)) == training.meta


def test_errors_are_one_line_with_cause_and_fix() -> None:
    assert str(PillionError("cannot do it", "a\nreason", "do that")) == "cannot do it: a reason; do that"
    assert str(Unavailable("no agent", "start one")) == "no agent; start one"
    codes = [PillionError("x").exit_code, UsageError("x").exit_code, Unavailable("x", "y").exit_code]
    assert codes == [1, 2, 3]
    assert PillionError("x", code=3).exit_code == 3
    for error in (PillionError("a", "b", "c", 3), Unavailable("a", "b"), CaptureError("a", "b")):
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.exit_code) == (str(error), error.exit_code)
