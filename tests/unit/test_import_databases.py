"""Databases of both tools: other types, other tools, damage; and what their ranges' texts say."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imported_databases import Rows, database, imported, nsys_tables, nvprof_tables, sampled_tables
from imported_traces import losses, names

import pillion
from pillion._errors import CaptureError
from pillion._tables import length
from pillion.importers.nvtx import nvtx_range


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("forward", ("forward", -1, False, "")),
        ("a, b", ("a, b", -1, False, "")),
        ("aten::view, op_id = 314290", ("aten::view", -1, False, "")),
        ("embedding, seq = 65", ("embedding", 65, False, "")),
        ("MmBackward0, stashed seq = 7, sizes = [[1, 2], [3]]", ("MmBackward0", 7, True, "[[1, 2], [3]]")),
        ("x, seq = 12345678901234567890", ("x", -1, False, "")),
        ("", ("", -1, False, "")),
    ],
)
def test_the_texts_of_emit_nvtx_are_taken_apart(text: str, parts: tuple[Any, ...]) -> None:
    assert nvtx_range(text)[:4] == parts


def test_importing_makes_no_file_and_changes_none(tmp_path: Path) -> None:
    path = database(tmp_path / "a b%20?.sqlite", **nsys_tables())
    before = path.read_bytes()
    os.chmod(path, 0o444)
    imported(path)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == before


def test_values_of_other_types_are_converted(tmp_path: Path) -> None:
    tables = sampled_tables()
    hostile = [None, "text", b"\xff", 1e300, -(2**63), 2**63 - 1, ""]
    for name, rows in tables.items():
        for value in hostile if name not in ("META_DATA_EXPORT", "StringIds") else ():
            tables[name] = [*tables[name], dict.fromkeys(rows[0], value)]
    capture = imported(database(tmp_path / "hostile.sqlite", **tables))
    assert "forward" in names(capture)
    assert losses(capture)["bad_times"] > 0


@pytest.mark.parametrize(
    ("tables", "cause"),
    [
        ({"users": [{"name": "x"}]}, "an SQLite database of another tool"),
        ({"StringTable": [{"_id_": 1, "value": "x"}]}, "an SQLite database of another tool"),
    ],
)
def test_a_database_of_another_tool_is_refused(tmp_path: Path, tables: dict[str, Rows], cause: str) -> None:
    with pytest.raises(CaptureError, match=cause):
        pillion.import_trace(database(tmp_path / "other.sqlite", **tables))


def test_a_header_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "header.sqlite"
    path.write_bytes(b"SQLite format 3\x00" + bytes(20))
    with pytest.raises(CaptureError, match="cannot import"):
        pillion.import_trace(path)


def test_a_truncated_database_gives_what_is_before_the_cut(tmp_path: Path) -> None:
    tables = nsys_tables()
    tables["NVTX_EVENTS"] = [{**tables["NVTX_EVENTS"][0], "start": start, "end": start + 5} for start in range(20_000)]
    path = database(tmp_path / "cut.sqlite", **tables)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    capture = imported(path)
    assert 0 < length(capture.columns["events"]) < 20_000
    assert losses(capture)["sqlite_damaged"] > 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=20), st.booleans())
def test_damage_never_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[float, int]], is_nsys: bool
) -> None:
    tables = sampled_tables() if is_nsys else nvprof_tables()
    path = database(tmp_path_factory.getbasetemp() / "damaged.sqlite", **tables)
    data = bytearray(path.read_bytes())
    for place, value in flips:
        data[16 + int(place * (len(data) - 16))] = value
    path.write_bytes(data)
    with contextlib.suppress(CaptureError):
        imported(path)
