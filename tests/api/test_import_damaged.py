"""`pillion import` of files that are damaged, hostile or none at all: what is whole, and what is missing, in a line."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pillion._capture import open_capture
from pillion.cli import main

RANGE = {"ph": "X", "cat": "cpu_op", "name": "forward", "pid": 7, "tid": 7, "ts": 1.0, "dur": 5.0}
PERF = "python 41/43 [002] 10.000001000: 1010101 cpu-clock:uH:\n\t7f0000001234 forward+0x2 (/usr/lib/x.so)\n\n"


def trace(*events: Any, **members: Any) -> bytes:
    return json.dumps({**members, "traceEvents": list(events)}).encode()


def sqlite_file(path: Path, *statements: str) -> bytes:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    content = path.read_bytes()
    path.unlink()
    return content


NSYS = (
    "CREATE TABLE NVTX_EVENTS (start, end, eventType, text, textId, globalTid)",
    "CREATE TABLE StringIds (id, value)",
)
NVPROF = (
    "CREATE TABLE StringTable (_id_, value)",
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (_id_, cbid, start, end, processId, threadId, correlationId)",
)


def nsys(path: Path, rows: int = 1) -> bytes:
    insert = f"INSERT INTO NVTX_EVENTS VALUES (1, 9, 59, 'forward', NULL, {7 << 24 | 7})"
    return sqlite_file(path, *NSYS, *[insert] * rows)


def nvprof(path: Path, rows: int = 1) -> bytes:
    insert = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 211, 1, 9, 7, 7, 5)"
    return sqlite_file(path, *NVPROF, *[insert] * rows)


class Imported:
    """What the command said: exit code, the lines of stdout and stderr, and the capture if there is one."""

    def __init__(self, content: bytes, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file = folder / "profile"
        self.file.write_bytes(content)
        self.code = main(["import", str(self.file), "-o", str(folder / "out")])
        said = capsys.readouterr()
        self.out, self.error = said.out.splitlines(), said.err.splitlines()
        self.capture = open_capture(folder / "out") if self.code == 0 else None
        if self.code:
            assert not (folder / "out").exists()

    def refusal(self) -> str:
        """The one line that says why not."""
        assert (self.code, self.out, len(self.error)) == (1, [], 1)
        assert str(self.file) in self.error[0]
        return self.error[0]

    def losses(self) -> dict[str, tuple[int, str]]:
        """What is missing, with its place; the command has said so."""
        assert (self.code, self.error) == (0, [])
        table = self.capture.columns["losses"]
        rows = zip(table["kind"].tolist(), table["count"].tolist(), table["place"].tolist())
        found = {kind: (count, place) for kind, count, place in rows}
        (said,) = (line for line in self.out if line.startswith("lost: "))
        assert all(f"{count:,} {kind}" in said for kind, (count, _) in found.items())
        return found

    def names(self) -> list[str]:
        texts = self.capture.columns["strings"]["text"]
        return [texts[row] for row in self.capture.columns["events"]["name"].tolist()]


@pytest.fixture
def imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda content: Imported(content, tmp_path, capsys)


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "it is empty"),
        (b" \n\t", "it is empty"),
        (b"\xff\xfe\x00\x01" * 99, "its content is none of"),
        (b"hello\n", "its content is none of"),
        (b"{", "its JSON ends before the first event"),
        (b"[", "its JSON ends before the first event"),
        (b'{"traceEvents": 7}', "no array traceEvents"),
        (b'{"a": [1, 2]}', "no array traceEvents"),
        (b"{]", "its JSON is not valid"),
        (b"{" * 100_000, "its JSON"),
        (gzip.compress(b""), "it is empty"),
        (gzip.compress(trace(RANGE))[:8], "gzip, damaged from the start on"),
        (b"\x1f\x8b" + b"\x00" * 20, "gzip, damaged from the start on"),
        (b"SQLite format 3\x00", "cannot import"),
        (b"SQLite format 3\x00" + b"\xff" * 4096, "its list of tables"),
    ],
)
def test_what_is_no_profile_is_refused_in_a_line(imported: Any, content: bytes, cause: str) -> None:
    assert cause in imported(content).refusal()


def test_a_database_of_another_tool_is_refused(imported: Any, tmp_path: Path) -> None:
    content = sqlite_file(tmp_path / "x", "CREATE TABLE users (name)", "INSERT INTO users VALUES ('x')")
    assert "an SQLite database of another tool" in imported(content).refusal()


@pytest.mark.parametrize(("is_there", "cause"), [(False, "No such file"), (True, "Is a directory")])
def test_what_is_no_file_is_refused(
    is_there: bool, cause: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_there:
        (tmp_path / "profile").mkdir()
    assert main(["import", str(tmp_path / "profile"), "-o", str(tmp_path / "out")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path / "profile") in line
    assert cause in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_of_a_job_that_was_killed_is_read_to_its_last_whole_event(imported: Any, packed: bool) -> None:
    whole = trace(*[RANGE] * 1_009)
    cut = whole[: whole.rindex(b'"dur"')]
    begin = cut.rindex(b"{")
    found = imported(gzip.compress(cut) if packed else cut)
    assert found.names() == ["forward"] * 1_008
    count, place = found.losses()["trace_truncated"]
    assert count == 1
    assert f"at byte {begin:,} of {found.file}" in place  # where what is unfinished begins


def test_a_trace_that_becomes_nonsense_is_read_until_there(imported: Any) -> None:
    content = trace(*[RANGE] * 5)[:-2] + b", nonsense]}"
    found = imported(content)
    assert found.names() == ["forward"] * 5
    assert "byte" in found.losses()["trace_corrupt"][1]


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_gzip_gives_what_comes_before(imported: Any, damage: str) -> None:
    packer = zlib.compressobj(0, wbits=31)  # stored, so that what is damaged is only there
    packed = packer.compress(trace(*[RANGE] * 20_011)) + packer.flush()
    place = len(packed) // 2
    content = packed[:place] if damage == "cut" else packed[:place] + b"\xff" * 80_000 + packed[place + 80_000 :]
    found = imported(content)
    assert 0 < len(found.names()) < 20_011
    assert found.losses().keys() & {"gzip_damaged", "trace_truncated", "trace_corrupt"}


def test_hostile_numbers_are_counted_and_the_rest_is_read(imported: Any) -> None:
    bad_times = [2**63, -(2**63), 1e300, 10**400]
    content = trace(RANGE, *({**RANGE, "ts": ts} for ts in bad_times), {**RANGE, "dur": -5.0, "name": "negative"})
    found = imported(content)
    assert sorted(found.names()) == ["forward", "negative"]
    losses = found.losses()
    assert (losses["bad_times"][0], losses["bad_durations"][0]) == (4, 1)


def test_deep_nesting_costs_its_event_at_most(imported: Any) -> None:
    deep = b"[" * 10_000 + b"]" * 10_000
    content = trace(RANGE, {**RANGE, "name": "deep", "args": "HERE"}, RANGE).replace(b'"HERE"', deep)
    found = imported(content)
    assert found.names().count("forward") == 2
    assert found.losses()["too_deep"][0] == 1


def test_repeated_numbers_and_long_names_are_read(imported: Any) -> None:
    numbers = {"External id": 3, "correlation": 5}
    call = {**RANGE, "cat": "cuda_runtime", "name": "n" * (1 << 20), "args": numbers}
    kernel = {**RANGE, "cat": "kernel", "name": "k", "args": {**numbers, "device": 0, "stream": 7}}
    found = imported(trace(*[{**RANGE, "args": numbers}] * 3, *[call] * 2, *[kernel] * 2))
    assert len(found.names()) == 5
    assert max(map(len, found.names())) == 1 << 20
    assert len(found.capture.columns["activities"]["name"]) == 2


@pytest.mark.parametrize("make", [nsys, nvprof])
def test_a_database_that_was_cut_gives_what_is_whole(imported: Any, tmp_path: Path, make: Any) -> None:
    content = make(tmp_path / "x", 10_007)
    found = imported(content[: len(content) // 2])
    assert 0 < len(found.names()) < 10_007
    assert "table" in found.losses()["sqlite_damaged"][1]


@pytest.mark.parametrize("make", [nsys, nvprof])
def test_hostile_rows_are_counted_and_the_rest_is_read(imported: Any, tmp_path: Path, make: Any) -> None:
    path = tmp_path / "x"
    path.write_bytes(make(path))
    table = "NVTX_EVENTS" if make is nsys else "CUPTI_ACTIVITY_KIND_RUNTIME"
    with closing(sqlite3.connect(path)) as connection, connection:
        (columns,) = {row[0] for row in connection.execute(f"SELECT count(*) FROM pragma_table_info('{table}')")}
        for value in (2**63 - 1, -(2**63), "text", b"\xff", None, "x" * (1 << 20)):
            connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})", [value] * columns)
    found = imported(path.read_bytes())
    assert {"forward", "cudaLaunchKernel"} & set(found.names())
    assert found.losses()


def test_a_perf_script_that_was_cut_or_is_no_text_gives_what_is_whole(imported: Any) -> None:
    found = imported((PERF * 101).encode() + b"\xff\xfe nonsense\n" + PERF[:40].encode())
    assert len(found.capture.columns["samples"]["ts_ns"]) == 101
    losses = found.losses()
    assert losses["bad_lines"][0] >= 1
    assert "line 304 of" in losses["bad_lines"][1]
    assert losses["perf_truncated"][0] == 1


def test_a_perf_script_in_a_damaged_gzip_gives_what_comes_before(imported: Any) -> None:
    packed = gzip.compress((PERF * 20_011).encode() + os.urandom(1 << 16))
    found = imported(packed[: len(packed) // 2])
    assert 0 < len(found.capture.columns["samples"]["ts_ns"]) <= 20_011
    assert found.losses()["gzip_damaged"][0] == 1
