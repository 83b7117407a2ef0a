"""speedscope's files, against the schema that speedscope ships."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from export_captures import device_capture
from spool_writer import SpoolWriter

from pillion._capture import Capture
from pillion.export.speedscope import write_speedscope
from pillion.merge import merge
from pillion.merge.spool import parse_spool

SCHEMA = Path(sys.prefix) / "readers/node_modules/speedscope/dist/release/file-format-schema.json"


def load(capture: Capture, folder: Path) -> dict[str, Any]:
    write_speedscope(capture, folder / "speedscope.json")
    loaded: dict[str, Any] = json.loads((folder / "speedscope.json").read_bytes())
    for profile in loaded["profiles"]:
        if profile["type"] == "evented":
            check_brackets(profile)
        else:
            assert len(profile["samples"]) == len(profile["weights"])
    return loaded


def check_brackets(profile: dict[str, Any]) -> None:
    """What speedscope's importer insists on: times that never fall, and frames that close in the order of a stack."""
    opened: list[int] = []
    last = profile["startValue"]
    for event in profile["events"]:
        assert last <= event["at"] <= profile["endValue"]
        last = event["at"]
        if event["type"] == "O":
            opened.append(event["frame"])
        else:
            assert opened.pop() == event["frame"]
    assert not opened


def test_threads_streams_and_what_overlaps_are_profiles(tmp_path: Path) -> None:
    loaded = load(device_capture(), tmp_path)
    names = [frame["name"] for frame in loaded["shared"]["frames"]]
    assert [profile["name"] for profile in loaded["profiles"]] == [
        "train (41)",
        "autograd (43)",
        "autograd (43) overlapping 1",
        "autograd (43) async",
        "GPU 0 stream -1",
        "GPU 0 stream 7",
        "GPU 0 stream 7 overlapping 1",
        "train (41) on CPU",
        "autograd (43) off CPU",
    ]
    main = loaded["profiles"][0]
    assert [(event["type"], names[event["frame"]], event["at"]) for event in main["events"]] == [
        ("O", "ProfilerStep#3", 0),
        ("O", "aten::mm", 1_000),
        ("O", "cudaLaunchKernel", 1_500),
        ("C", "cudaLaunchKernel", 2_250),
        ("O", "cudaMemcpyAsync", 3_000),
        ("C", "cudaMemcpyAsync", 3_001),
        ("C", "aten::mm", 5_000),
        ("C", "ProfilerStep#3", 10_000),
    ]
    on_cpu, off_cpu = loaded["profiles"][-2:]
    assert [[names[frame] for frame in stack] for stack in on_cpu["samples"]] == [["main", "matmul", "gemm"], []]
    assert (on_cpu["weights"], on_cpu["endValue"]) == ([1_009, 1_013], 2_022)
    assert [[names[frame] for frame in stack] for stack in off_cpu["samples"]] == [["main", "do_nanosleep"]]
    assert off_cpu["weights"] == [800]
    assert {"name": "main", "file": "train.py", "line": 10} in loaded["shared"]["frames"]


@pytest.mark.skipif(not SCHEMA.exists(), reason="needs speedscope, which make test installs where npm is")
def test_files_fit_speedscopes_schema(spool: SpoolWriter, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema")
    schema = json.loads(SCHEMA.read_text())
    tables, meta = merge(parse_spool(spool.to_bytes()))
    hostile = device_capture()
    hostile.columns["strings"]["text"][1] = '"\\\u0000\ud800\U0001f600'
    for capture in (device_capture(), Capture(tables, meta), hostile):
        jsonschema.validate(load(capture, tmp_path), schema)


def test_a_gz_path_is_gzipped_and_exporting_again_gives_the_same(tmp_path: Path) -> None:
    path = tmp_path / "speedscope.json.gz"
    write_speedscope(device_capture(), path)
    first = path.read_bytes()
    write_speedscope(device_capture(), path)
    assert path.read_bytes() == first
    assert json.loads(gzip.decompress(first))["exporter"] == "pillion"
