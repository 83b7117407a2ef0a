"""What holds for every format: by name, from Python and from the command line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from export_captures import device_capture
from hypothesis import given, settings
from hypothesis import strategies as st
from real_profiles import ALL, real_profile
from spool_writer import SpoolWriter

from pillion._capture import Capture, save_capture
from pillion.cli import main
from pillion.export.registry import FORMATS, export
from pillion.importers.profile_file import import_trace
from pillion.merge import merge
from pillion.merge.spool import parse_spool

FILES = [name for name, format in FORMATS.items() if not format.is_folder]


@pytest.mark.parametrize("name", FORMATS)
def test_exporting_again_gives_the_same(name: str, tmp_path: Path) -> None:
    def contents() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    export(device_capture(), tmp_path / "out", name)
    first = contents()
    export(device_capture(), tmp_path / "out", name)
    assert contents() == first
    assert all("part" not in path for path in first)


@pytest.mark.parametrize("name", FORMATS)
def test_a_capture_exports_itself(name: str, tmp_path: Path) -> None:
    def contents() -> list[bytes]:
        return [path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()]

    capture = device_capture()
    export(capture, tmp_path / "out", name)
    expected = contents()
    capture.export(tmp_path / "out", name)
    assert contents() == expected


def test_a_capture_refuses_formats_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no format 'nothing'"):
        device_capture().export(tmp_path / "out", "nothing")
    with pytest.raises(ValueError, match="off_cpu says nothing to the format chrome"):
        device_capture().export(tmp_path / "out", "chrome", off_cpu=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", FORMATS)
def test_a_capture_of_nothing_is_exported(name: str, spool: SpoolWriter, tmp_path: Path) -> None:
    tables, meta = merge(parse_spool(spool.to_bytes()))
    export(Capture(tables, meta), tmp_path / "out", name)
    assert (tmp_path / "out").exists()


@pytest.mark.parametrize("name", FILES)
def test_a_bad_path_is_an_os_error_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "out", tmp_path):
        with pytest.raises(OSError, match=path.name):
            export(device_capture(), path, name)
    assert not list(tmp_path.iterdir())


@settings(max_examples=20, deadline=None)
@given(text=st.text(), start=st.integers(-(2**62), 2**62), duration=st.integers(-(2**61), 2**61))
@pytest.mark.parametrize("name", FILES)
def test_hostile_texts_and_times_are_written(
    name: str, text: str, start: int, duration: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    capture = device_capture()
    capture.columns["strings"]["text"][1:] = text
    capture.columns["frames"]["name"][:] = text
    capture.columns["frames"]["file"][:2] = text
    capture.columns["processes"]["comm"][:] = text
    for table in ("events", "activities", "waits"):
        capture.columns[table]["start_ns"][-1] = start
        capture.columns[table]["end_ns"][0] = start + duration
    export(capture, tmp_path_factory.mktemp("t") / "out", name)


@pytest.mark.parametrize("profile", ALL)
def test_real_profiles_are_exported_to_every_format(profile: str, tmp_path: Path) -> None:
    capture = import_trace(real_profile(profile))
    for name in FORMATS:
        export(capture, tmp_path / name, name)
    for name in ("chrome", "speedscope"):
        json.loads((tmp_path / name).read_bytes(), parse_constant=pytest.fail)
    # Every event and activity is there: what has a name has as many of it.
    slices = Counter(
        event["name"]
        for event in json.loads((tmp_path / "chrome").read_bytes())["traceEvents"]
        if event["ph"] in "Xib" and event.get("cat") not in ("sample", "wait")
    )
    texts = capture.columns["strings"]["text"]
    rows = [capture.columns[table]["name"].tolist() for table in ("events", "activities")]
    assert slices == Counter(texts[name] for names in rows for name in names)
    assert (tmp_path / "collapsed").stat().st_size > 0


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="chrome, perfetto"):
        export(device_capture(), tmp_path / "out", "flame")
    with pytest.raises(ValueError, match="off_cpu"):
        export(device_capture(), tmp_path / "out", "pprof", off_cpu=True)


@pytest.mark.parametrize("name", FORMATS)
def test_the_command_writes_each_format_once(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_capture(device_capture(), tmp_path / "capture")
    command = ["export", str(tmp_path / "capture"), "-f", name, "-o", str(tmp_path / "out")]
    meta = tmp_path / "capture/meta.json"
    meta.write_text(meta.read_text().replace("{", '{"format": 1,', 1))
    assert main(command) == 0
    assert main(command) == 1
    assert "it exists" in capsys.readouterr().err
    assert main([*command, "--force"]) == 0
    assert main([*command, "--off-cpu", "--force"]) == (0 if name == "collapsed" else 2)
