"""The same database of nvprof through torch's reader and ours."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

import torch.autograd.profiler as theirs  # noqa: E402

from pillion import profiler as ours  # noqa: E402

MARKER = "CUPTI_ACTIVITY_KIND_MARKER (_id_, flags, timestamp, id, objectKind, objectId, name)"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME (_id_, cbid, start, end, processId, threadId, correlationId)"
KERNEL = "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (start, end, name, correlationId, deviceId, streamId)"
TEXTS = ["outer", "aten::mm, seq = 4, sizes = [[2, 3], [3, 2]]", "MmBackward0, stashed seq = 4", "_Z4gemmPf"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Ranges of emit_nvtx: one that holds another, and one after them; each launches kernels."""
    where = (7).to_bytes(4, "little") + (9).to_bytes(4, "little") + bytes(4)
    markers = [(100_000, 1, 1), (110_000, 2, 2), (150_000, 2, 0), (200_000, 1, 0), (210_000, 3, 3), (290_000, 3, 0)]
    with closing(sqlite3.connect(tmp_path / "net.nvprof")) as connection, connection:
        connection.execute("CREATE TABLE StringTable (_id_, value)")
        connection.executemany("INSERT INTO StringTable VALUES (?, ?)", enumerate(TEXTS, start=1))
        for table in (MARKER, RUNTIME, KERNEL):
            connection.execute(f"CREATE TABLE {table}")
        for row, (time, number, name) in enumerate(markers):
            values = (row, 2 if name else 4, time, number, 2, where, name)
            connection.execute(f"INSERT INTO {MARKER.split()[0]} VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        for number, start in enumerate((120_000, 130_000, 160_000, 220_000), start=1):
            call = (number, 211, start, start + 5_000, 7, 9, number)
            connection.execute(f"INSERT INTO {RUNTIME.split()[0]} VALUES (?, ?, ?, ?, ?, ?, ?)", call)
            kernel = (300_000 + start, 300_000 + start + number * 1_000, 4, number, 0, 7)
            connection.execute(f"INSERT INTO {KERNEL.split()[0]} VALUES (?, ?, ?, ?, ?, ?)", kernel)
    return tmp_path / "net.nvprof"


def test_ranges_are_the_same_in_microseconds(path: Path) -> None:
    mine, expected = ours.parse_nvprof_trace(path), theirs.parse_nvprof_trace(str(path))
    assert [event.name for event in mine] == [event.name.partition(", s")[0] for event in expected]
    assert [event.sequence_nr for event in mine] == [-1, 4, 4]
    assert mine[1].input_shapes == [[2, 3], [3, 2]]
    origin_us = mine[0].time_range.start
    for event, other in zip(mine, expected, strict=True):
        begin_us = (other.time_range.start - expected[0].time_range.start) / 1e3
        assert event.time_range.start - origin_us == pytest.approx(begin_us)
        assert event.time_range.elapsed_us() == pytest.approx(other.time_range.elapsed_us() / 1e3)


def test_kernels_are_the_same_under_their_names_and_each_with_the_innermost_range(path: Path) -> None:
    mine, expected = ours.parse_nvprof_trace(path), theirs.parse_nvprof_trace(str(path))

    def with_children(event: Any) -> list[float]:
        inner = [duration for child in event.cpu_children for duration in with_children(child)]
        return sorted([kernel.duration for kernel in event.kernels] + inner)

    for event, other in zip(mine, expected, strict=True):
        assert with_children(event) == pytest.approx(sorted(kernel.duration / 1e3 for kernel in other.kernels))
    assert [len(event.kernels) for event in mine] == [1, 2, 1]
    assert {kernel.name for event in mine for kernel in event.kernels} == {"gemm(float*)"}
    assert [event.device_time_total for event in mine] == pytest.approx([6, 3, 4])


def test_the_list_has_the_calls_and_the_kernels_too_and_answers_at_once(path: Path) -> None:
    events = ours.load_nvprof(path)
    names = [event.name for event in events]
    assert (names.count("cudaLaunchKernel"), names.count("gemm(float*)")) == (4, 4)
    assert events.key_averages().table(sort_by="device_time_total")
    with pytest.raises(AssertionError, match="tree"):
        theirs.load_nvprof(str(path)).key_averages()
