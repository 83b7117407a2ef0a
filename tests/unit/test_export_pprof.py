"""pprof's profiles, read by npm's pprof-format."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from export_captures import device_capture
from spool_writer import SpoolWriter

from pillion._capture import Capture
from pillion._tables import from_rows
from pillion.export.pprof import write_pprof
from pillion.merge import merge
from pillion.merge.spool import parse_spool

READERS = Path(sys.prefix) / "readers"
# Prints the profile with its numbers looked up: samples as [stack leaf first, values, labels].
SCRIPT = """
const { Profile } = require(process.argv[2] + "/node_modules/pprof-format");
const bytes = require("zlib").gunzipSync(require("fs").readFileSync(process.argv[3]));
const profile = Profile.decode(bytes);
const text = (number) => profile.stringTable.strings[Number(number)];
const byId = (items) => new Map(items.map((item) => [Number(item.id), item]));
const functions = byId(profile.function), locations = byId(profile.location), mappings = byId(profile.mapping);
const frame = (id) => {
  const location = locations.get(Number(id)), line = location.line[0], of = functions.get(Number(line.functionId));
  const mapping = mappings.get(Number(location.mappingId));
  return [text(of.name), text(of.filename), Number(line.line), mapping ? text(mapping.filename) : ""];
};
console.log(JSON.stringify({
  types: profile.sampleType.map((type) => [text(type.type), text(type.unit)]),
  samples: profile.sample.map((sample) => [
    sample.locationId.map(frame), sample.value.map(Number), sample.label.map((one) => [text(one.key), text(one.str)])]),
  time: Number(profile.timeNanos), duration: Number(profile.durationNanos), period: Number(profile.period),
}));
"""

pytestmark = pytest.mark.skipif(
    not shutil.which("node") or not (READERS / "node_modules/pprof-format").exists(),
    reason="needs node and pprof-format, which make test installs where npm is",
)


def load(capture: Capture, folder: Path) -> dict[str, Any]:
    path = folder / "profile.pb"
    write_pprof(capture, path)
    command = ["node", "-", str(READERS), str(path)]
    loaded: dict[str, Any] = json.loads(
        subprocess.run(command, input=SCRIPT.encode(), capture_output=True, check=True).stdout
    )
    return loaded


def test_samples_and_waits_with_their_labels(tmp_path: Path) -> None:
    loaded = load(device_capture(), tmp_path)
    assert loaded["types"] == [["samples", "count"], ["cpu", "nanoseconds"], ["off_cpu", "nanoseconds"]]
    assert [loaded[key] for key in ("time", "duration", "period")] == [5_000_010_000, 10_000, 10_000_000]
    main, matmul = ["main", "train.py", 10, ""], ["matmul", "model.py", 20, ""]
    on_thread = [["thread", "train (41)"], ["range", "aten::mm"]]
    assert sorted(loaded["samples"], key=str) == sorted(
        [
            [[["gemm", "", 0, "libblas.so"], matmul, main], [1, 1_009, 0], on_thread],
            [[["[unknown]", "", 0, ""]], [1, 1_013, 0], on_thread],
            [
                [["do_nanosleep", "", 0, "[kernel]"], main],
                [0, 0, 800],
                [["thread", "autograd (43)"], ["range", "request"]],
            ],
        ],
        key=str,
    )


def test_equal_stacks_of_a_thread_and_range_are_one_sample(tmp_path: Path) -> None:
    capture = device_capture()
    capture.columns["samples"]["stack"][:] = 3
    on_cpu = [sample for sample in load(capture, tmp_path)["samples"] if sample[1][0]]
    assert [values for _, values, _ in on_cpu] == [[2, 2_022, 0]]


def test_without_samples_ranges_and_kernels_are_the_stacks(tmp_path: Path) -> None:
    capture = device_capture()
    capture.columns |= {name: from_rows(name, []) for name in ("samples", "waits")}
    loaded = load(capture, tmp_path)
    assert loaded["types"] == [["calls", "count"], ["wall", "nanoseconds"], ["device", "nanoseconds"]]
    values: Counter[tuple[str, ...]] = Counter()
    for stack, (calls, wall_ns, device_ns), labels in loaded["samples"]:
        path = tuple(frame[0] for frame in reversed(stack))
        assert path not in values
        values[path] = (calls, wall_ns, device_ns, labels[0][1])  # type: ignore[assignment]
    assert values["ProfilerStep#3",] == (1, 6_000, 0, "train (41)")  # type: ignore[comparison-overlap]
    assert values["ProfilerStep#3", "aten::mm"] == (1, 3_249, 0, "train (41)")  # type: ignore[comparison-overlap]
    kernels = values["ProfilerStep#3", "aten::mm", "gemm<float>"]
    assert kernels == (0, 0, 4_500, "GPU 0 stream 7")  # type: ignore[comparison-overlap]
    assert ("loss",) not in values


def test_a_profile_of_nothing_is_valid_and_gzipped(spool: SpoolWriter, tmp_path: Path) -> None:
    tables, meta = merge(parse_spool(spool.to_bytes()))
    assert load(Capture(tables, meta), tmp_path)["samples"] == []
    assert gzip.decompress((tmp_path / "profile.pb").read_bytes())


def test_texts_that_utf8_cannot_hold_are_written(tmp_path: Path) -> None:
    capture = device_capture()
    capture.columns["frames"]["name"][0] = "\ud800\u0000é"
    names = {frame[0] for stack, _, _ in load(capture, tmp_path)["samples"] for frame in stack}
    assert "?\u0000é" in names
