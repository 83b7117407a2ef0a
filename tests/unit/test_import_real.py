"""Profiles that other tools have made, against what plain SQL and plain JSON say of the same files."""

from __future__ import annotations

import contextlib
import gzip
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from real_profiles import ALL, real_profile

import pillion
from pillion._capture import Capture, open_capture
from pillion._tables import check_references, column
from pillion.cli import main
from pillion.render.text import render_report


def kinds(capture: Capture) -> Counter[str]:
    kind = capture.columns["activities"]["kind"]
    return Counter(kind[row] for row in range(len(kind)))


def categories(capture: Capture) -> Counter[str]:
    category = column("events", capture.columns["events"], "category")
    return Counter(category[row] for row in range(len(category)))


def work(capture: Capture, *kind: str) -> dict[str, tuple[int, int]]:
    """For each name of activities how many and how long, ns."""
    activities, texts = capture.columns["activities"], capture.columns["strings"]["text"]
    sums: dict[str, tuple[int, int]] = {}
    for row in np.flatnonzero(activities["kind"].isin(*kind)).tolist():
        name = texts[activities["name"][row]]
        count, total = sums.get(name, (0, 0))
        sums[name] = count + 1, total + int(activities["end_ns"][row] - activities["start_ns"][row])
    return sums


@contextlib.contextmanager
def sql(path: Path) -> Iterator[sqlite3.Connection]:
    """A copy in memory, which may be given indices."""
    with contextlib.closing(sqlite3.connect(":memory:")) as copy:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as file:
            file.backup(copy)
        yield copy


@pytest.mark.parametrize("name", ALL)
def test_each_is_imported_and_reported(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "real.pillion"
    assert main(["import", str(real_profile(name)), "-o", str(target)]) == 0
    assert "lost: nothing" in capsys.readouterr().out
    capture = open_capture(target)
    check_references(capture.columns)
    for by in ("range", "function", "thread", "process", "wait"):
        assert "imported from" in render_report(capture, by)
    if len(capture.columns["events"]["id"]):
        assert len(capture.key_averages()) > 0
        assert capture.total_average().count > 0
    capture.export_chrome_trace(tmp_path / "again.json")
    again = pillion.import_trace(tmp_path / "again.json")
    assert kinds(again) == kinds(capture)
    assert categories(again)["cpu_op"] == categories(capture)["cpu_op"]


def test_pyprof_lm_v100_says_what_sql_says() -> None:
    path = real_profile("nvprof/pyprof_lm_v100.sqlite")
    capture = pillion.import_trace(path)
    events, activities = capture.columns["events"], capture.columns["activities"]
    with sql(path) as database:
        one = lambda query: database.execute(query).fetchone()[0]  # noqa: E731 — a word for what follows
        assert one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MARKER") == 1_366
        assert one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL") == 160
        assert kinds(capture) == {
            "kernel": 160,
            "memcpy": one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY"),
            "memset": one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMSET"),
            "sync": one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"),
        }
        assert categories(capture) == {
            "user_annotation": 1_366 // 2,
            "cuda_runtime": one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME"),
            "overhead": one("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_OVERHEAD"),
        }
        ranges = database.execute(
            "SELECT a.timestamp, b.timestamp FROM CUPTI_ACTIVITY_KIND_MARKER a JOIN CUPTI_ACTIVITY_KIND_MARKER b "
            "ON a.id = b.id WHERE a.name != 0 AND b.name = 0 ORDER BY 1, 2"
        ).fetchall()
        is_range = column("events", events, "category").isin("user_annotation")
        assert sorted(zip(events["start_ns"][is_range].tolist(), events["end_ns"][is_range].tolist())) == ranges
        assert sum(total for _, total in work(capture, "kernel").values()) == one(
            "SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"
        )
        launches = database.execute(
            "SELECT k.start, r.start FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r "
            "USING (correlationId) ORDER BY 1"
        ).fetchall()
        # The range of a kernel: of those of its launch's thread that strictly contain the launch, the last to begin.
        causes = database.execute(
            "SELECT (SELECT max(a.timestamp) FROM CUPTI_ACTIVITY_KIND_MARKER a JOIN CUPTI_ACTIVITY_KIND_MARKER b "
            "ON a.id = b.id AND b.name = 0 WHERE a.name != 0 AND a.timestamp < r.start AND b.timestamp > r.end "
            "AND substr(hex(a.objectId), 9, 8) = substr(printf('%08X', (r.threadId >> 0) & 255), 7, 2) || "
            "substr(printf('%08X', (r.threadId >> 8) & 255), 7, 2) || "
            "substr(printf('%08X', (r.threadId >> 16) & 255), 7, 2) || "
            "substr(printf('%08X', (r.threadId >> 24) & 255), 7, 2)) "
            "FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) "
            "ORDER BY k.start"
        ).fetchall()
    kernels = np.flatnonzero(activities["kind"].isin("kernel"))
    launch, cause = activities["launch"][kernels], activities["event"][kernels]
    assert list(zip(activities["start_ns"][kernels].tolist(), events["start_ns"][launch].tolist())) == launches
    assert [start for (start,) in causes] == [
        int(events["start_ns"][row]) if row != called else None for row, called in zip(cause.tolist(), launch.tolist())
    ]
    texts = capture.columns["strings"]["text"]
    assert not any(texts[row].startswith("_Z") for row in activities["name"].tolist())


def test_h100_2gpu_says_what_sql_says() -> None:
    path = real_profile("nsys/h100_2gpu.sqlite")
    capture = pillion.import_trace(path)
    events, activities = capture.columns["events"], capture.columns["activities"]
    with sql(path) as database:
        counts = {
            table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS")
        }
        assert list(counts.values()) == [3_442, 5_796, 16_782]
        assert categories(capture)["user_annotation"] == 16_782
        assert categories(capture)["cuda_runtime"] + categories(capture)["cuda_driver"] == 5_796
        assert kinds(capture) == {"kernel": 3_442, "memcpy": 904, "sync": 244, "memset": 22}
        by_name = database.execute(
            "SELECT value, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL "
            "JOIN StringIds ON id = demangledName GROUP BY value"
        ).fetchall()
        assert work(capture, "kernel") == {name: (count, total) for name, count, total in by_name}
        by_device = database.execute(
            "SELECT deviceId, streamId, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1, 2"
        ).fetchall()
        launches = database.execute(
            "SELECT k.start, k.streamId, r.start, r.end, r.globalTid FROM CUPTI_ACTIVITY_KIND_KERNEL k "
            "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON k.correlationId = r.correlationId "
            "AND k.globalPid >> 24 = r.globalTid >> 24 ORDER BY 1, 2, 3"
        ).fetchall()
        database.execute("CREATE INDEX by_thread ON NVTX_EVENTS (globalTid, start)")
        query = (
            "SELECT start FROM NVTX_EVENTS WHERE globalTid = ? AND start <= ? AND end >= ? ORDER BY start DESC LIMIT 1"
        )
        ranges = [database.execute(query, (tid, start, end)).fetchone() for _, _, start, end, tid in launches]
    kernels = np.flatnonzero(activities["kind"].isin("kernel"))
    places = Counter(zip(activities["device"][kernels].tolist(), activities["stream"][kernels].tolist()))
    assert places == {(device, stream): count for device, stream, count in by_device}
    linked = kernels[activities["launch"][kernels] >= 0]
    ours = sorted(
        (
            int(activities["start_ns"][row]),
            int(activities["stream"][row]),
            int(events["start_ns"][activities["launch"][row]]),
            None
            if activities["event"][row] == activities["launch"][row]
            else (int(events["start_ns"][activities["event"][row]]),),
        )
        for row in linked.tolist()
    )
    assert ours == [(start, stream, call, found) for (start, stream, call, _, _), found in zip(launches, ranges)]
    assert capture.meta["realtime_offset_ns"] + capture.meta["start_ns"] > 1_779_630_014 * 10**9


@pytest.mark.parametrize("name", [name for name in ALL if name.startswith("kineto/")])
def test_kineto_traces_say_what_json_says(name: str) -> None:
    path = real_profile(name)
    capture = pillion.import_trace(path)
    whole = json.loads(gzip.decompress(path.read_bytes()))
    slices = [event for event in whole["traceEvents"] if event["ph"] == "X" and not isinstance(event["pid"], str)]
    renamed = {"Operator": "cpu_op", "Runtime": "cuda_runtime", "Kernel": "kernel", "Memcpy": "memcpy"}
    renamed |= {"Memset": "memset", "gpu_memcpy": "memcpy", "gpu_memset": "memset", "cuda_sync": "sync"}
    expected = Counter(renamed.get(event["cat"], event["cat"]) for event in slices)
    annotations = expected.pop("gpu_user_annotation", 0)
    found = categories(capture) + kinds(capture)
    assert kinds(capture)["user_annotation"] == annotations
    assert found - Counter({"user_annotation": annotations}) == expected
    on_device = [event for event in slices if renamed.get(event["cat"], event["cat"]) in ("kernel", "memcpy", "memset")]
    assert sum(total for _, total in work(capture, "kernel", "memcpy", "memset").values()) == sum(
        round(event["dur"] * 1e3) for event in on_device
    )
    calls = {
        event["args"].get("correlation") for event in slices if "untime" in event["cat"] or "driver" in event["cat"]
    }
    linked = sum(event["args"]["correlation"] in calls for event in on_device)
    activities = capture.columns["activities"]
    is_work = activities["kind"].isin("kernel", "memcpy", "memset")
    assert int((column("activities", activities, "launch")[is_work] >= 0).sum()) == linked
    assert operators_of_kernels(capture) == operators_of_json(slices, on_device)


def operators_of_kernels(capture: Capture) -> list[str]:
    """The names of the operators and ranges that started work, sorted; without those that only a call started."""
    events, activities, texts = (
        capture.columns["events"],
        capture.columns["activities"],
        capture.columns["strings"]["text"],
    )
    rows = np.flatnonzero(activities["kind"].isin("kernel", "memcpy", "memset"))
    cause = activities["event"][rows]
    cause = cause[(cause >= 0) & (cause != column("activities", activities, "launch")[rows])]
    return sorted(texts[events["name"][row]] for row in cause.tolist())


def operators_of_json(slices: list[dict[str, Any]], on_device: list[dict[str, Any]]) -> list[str]:
    """The same by the rule itself: the operator with the External id, else the innermost one around the call."""

    def external(event: dict[str, Any]) -> int:
        number: int = event["args"].get("External id", event["args"].get("external id", 0))
        return number

    hosts = [event for event in slices if event["cat"] in ("cpu_op", "Operator", "user_annotation")]
    by_number: dict[int, str] = {}
    for event in sorted(hosts, key=lambda event: (int(event["tid"]), event["ts"], -event["dur"])):
        if external(event):
            by_number.setdefault(external(event), event["name"])
    calls = {
        event["args"]["correlation"]: event
        for event in reversed(slices)
        if event["cat"] in ("cuda_runtime", "cuda_driver", "Runtime") and event["args"].get("correlation")
    }
    found = []
    for event in on_device:
        call = calls.get(event["args"]["correlation"])
        if external(event) in by_number:
            found.append(by_number[external(event)])
        elif call:
            around = [
                host
                for host in hosts
                if (host["pid"], int(host["tid"])) == (call["pid"], int(call["tid"]))
                and host["ts"] <= call["ts"]
                and call["ts"] + call["dur"] <= host["ts"] + host["dur"]
            ]
            if around:
                found.append(max(around, key=lambda host: (host["ts"], -host["dur"]))["name"])
    return sorted(found)


def test_perf_forks_has_a_sample_for_each_header() -> None:
    path = real_profile("perf/forks.txt")
    capture = pillion.import_trace(path)
    headers = [line for line in path.read_text().splitlines() if line and not line[0].isspace()]
    samples = capture.columns["samples"]
    assert len(samples["ts_ns"]) == len(headers)
    cpus = Counter(line.split("[")[1][:3] for line in headers)
    assert Counter(f"{cpu:03}" for cpu in samples["cpu"].tolist()) == cpus
    assert set(samples["weight_ns"].tolist()) == {1_001_001}


def test_a_capture_is_not_replaced_unless_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = real_profile("perf/forks.txt")
    target = tmp_path / "a.pillion"
    assert main(["import", str(profile), "-o", str(target)]) == 0
    assert main(["import", str(profile), "-o", str(target)]) == 1
    assert "add --force" in capsys.readouterr().err
    assert main(["import", str(profile), "-o", str(target), "--force"]) == 0
    assert main(["import", str(tmp_path / "none"), "-o", str(target), "--force"]) == 1
    assert "No such file" in capsys.readouterr().err
    assert len(open_capture(target).columns["samples"]["ts_ns"]) == 561
