"""nvprof's databases: what each table becomes."""

from __future__ import annotations

from pathlib import Path

import pytest
from imported_databases import database, imported, nvprof_tables
from imported_traces import losses, names


def test_an_nvprof_database_becomes_events_and_activities(tmp_path: Path) -> None:
    capture = imported(database(tmp_path / "net.sql", **nvprof_tables()))
    events, activities = capture.columns["events"], capture.columns["activities"]
    assert names(capture) == ["outer", "add", "cudaLaunchKernel", "cudaLaunch", "cuda_runtime call 9999", "outer"]
    assert events["parent"].tolist() == [-1, 0, 1, 0, 0, -1]
    assert set(events["tid"].tolist()) == {0xEADC3740}
    assert events["sequence_nr"].tolist() == [-1, 4, -1, -1, -1, -1]
    assert names(capture, "activities") == ["add(float*)", "add(float*)", "Memcpy DtoH"]
    assert activities["launch"].tolist() == [2, 3, 4]
    assert activities["event"].tolist() == [1, 0, 0]
    assert capture.columns["processes"]["comm"].tolist() == ["python x.py"]
    assert losses(capture) == {"lonely_ends": 1, "unfinished": 1}
    assert capture.meta["trace"] == {"version": [12]}


@pytest.mark.parametrize(
    ("table", "number", "name"),
    [
        ("RUNTIME", 1, "cudaDriverGetVersion"),
        ("RUNTIME", 20, "cudaMalloc"),
        ("RUNTIME", 211, "cudaLaunchKernel"),
        ("RUNTIME", 214, "cudaLaunchKernel_ptsz"),
        ("RUNTIME", 430, "cudaLaunchKernelExC"),
        ("RUNTIME", 9_999, "cuda_runtime call 9999"),
        ("DRIVER", 1, "cuInit"),
        ("DRIVER", 307, "cuLaunchKernel"),
        ("DRIVER", 9_999, "cuda_driver call 9999"),
    ],
)
def test_calls_have_their_functions_name(tmp_path: Path, table: str, number: int, name: str) -> None:
    tables = nvprof_tables()
    call = {**tables["CUPTI_ACTIVITY_KIND_RUNTIME"][0], "cbid": number}
    capture = imported(database(tmp_path / "net.sql", **tables | {f"CUPTI_ACTIVITY_KIND_{table}": [call]}))
    assert name in names(capture)
