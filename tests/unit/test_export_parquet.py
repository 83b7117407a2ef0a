"""Parquet files, read by DuckDB."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from export_captures import device_capture

from pillion._errors import CaptureError
from pillion._tables import SCHEMAS
from pillion.export.parquet import write_parquet

duckdb = pytest.importorskip("duckdb", reason="needs duckdb")


def test_duckdb_joins_the_tables(tmp_path: Path) -> None:
    write_parquet(device_capture(), tmp_path / "tables")
    assert sorted(file.name for file in (tmp_path / "tables").iterdir()) == sorted(
        f"{name}.parquet" for name in SCHEMAS
    )
    rows = duckdb.sql(
        f"""select text, kind, sum(end_ns - start_ns)::int from '{tmp_path}/tables/activities.parquet' a
        join '{tmp_path}/tables/strings.parquet' s on a.name = s.id group by all order by all"""
    ).fetchall()
    assert rows == [("Context Sync", "sync", 1_000), ("Memcpy HtoD", "memcpy", 500), ("gemm<float>", "kernel", 4_500)]
    stacks = duckdb.sql(f"select frames from '{tmp_path}/tables/stacks.parquet' order by id").fetchall()
    assert stacks == [([],), ([1, 0],), ([2, 0],), ([3, 1, 0],)]
    meta = duckdb.sql(
        f"select value from parquet_kv_metadata('{tmp_path}/tables/losses.parquet') where key = 'pillion'"
    )
    assert json.loads(meta.fetchall()[0][0])["host"] == "box"


def test_writing_again_replaces_the_tables_and_leaves_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    write_parquet(device_capture(), tmp_path)
    first = (tmp_path / "events.parquet").read_bytes()
    write_parquet(device_capture(), tmp_path)
    assert (tmp_path / "events.parquet").read_bytes() == first
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(device_capture(), tmp_path / "old")
    before = {file.name: file.read_bytes() for file in (tmp_path / "old").iterdir()}
    capture = device_capture()
    capture.columns["losses"]["count"] = None
    for folder in ("old", "new"):
        with pytest.raises((AttributeError, TypeError, ValueError)):
            write_parquet(capture, tmp_path / folder)
    assert {file.name: file.read_bytes() for file in (tmp_path / "old").iterdir()} == before
    assert not (tmp_path / "new").exists()


def test_what_parquet_cannot_hold_is_a_capture_error(tmp_path: Path) -> None:
    capture = device_capture()
    capture.columns["strings"]["text"][1] = "\ud800"
    with pytest.raises(CaptureError, match="the table strings"):
        write_parquet(capture, tmp_path / "tables")
    assert not (tmp_path / "tables").exists()


def test_a_bad_path_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "none" / "tables"):
        with pytest.raises(OSError, match=path.name):
            write_parquet(device_capture(), path)
