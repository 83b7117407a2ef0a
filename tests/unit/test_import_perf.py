"""``perf script``'s text, in the shapes that its versions and options give it."""

from __future__ import annotations

import contextlib
import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pillion
from pillion._capture import Capture
from pillion._errors import CaptureError
from pillion._tables import check_references

STACKS = """\
# captured on: today
python3  41/43  [002]  10.000001000:     1010101 cpu-clock:uH:
\tffffffff81000010 do_syscall_64+0x10 ([kernel.kallsyms])
\t    7f0000001234 _ZN2at6matmulEv+0x24 (/usr/lib/libtorch_cpu.so)
\t    7f0000005678 py::forward:/job/model.py (/tmp/perf-41.map)
\t               0 [unknown] ([unknown])

         swapper     0 [001] 10.000002:  1010101 cpu-clock:uH:
\t    7f0000001234 operator() (anonymous) (/usr/lib/x y.so (deleted))

my job (2)   44 [000] 11.5:  1010101 cpu-clock:uH:  ffffffff81000020 idle ([kernel.kallsyms])
"""


def imported(tmp_path: Path, text: str | bytes) -> Capture:
    path = tmp_path / "script.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    capture = pillion.import_trace(path)
    check_references(capture.columns)
    return capture


def stack(capture: Capture, sample: int) -> list[tuple[str, str, str, str]]:
    """(kind, name, file, module) of each frame of a sample, leaf first."""
    frames = capture.columns["frames"]
    rows = capture.columns["stacks"]["frames"][int(capture.columns["samples"]["stack"][sample])].tolist()
    return [tuple(frames[key][row] for key in ("kind", "name", "file", "module")) for row in rows]


def losses(capture: Capture) -> dict[str, int]:
    table = capture.columns["losses"]
    return dict(zip(table["kind"].tolist(), table["count"].tolist()))


def test_samples_have_their_thread_their_time_and_their_stack(tmp_path: Path) -> None:
    capture = imported(tmp_path, STACKS)
    samples = capture.columns["samples"]
    assert samples["ts_ns"].tolist() == [10_000_001_000, 10_000_002_000, 11_500_000_000]
    assert list(zip(samples["pid"].tolist(), samples["tid"].tolist(), samples["cpu"].tolist())) == [
        (41, 43, 2),
        (0, 0, 1),
        (44, 44, 0),
    ]
    assert set(samples["weight_ns"].tolist()) == {1_010_101}
    assert stack(capture, 0) == [
        ("kernel", "do_syscall_64", "", "[kernel.kallsyms]"),
        ("native", "at::matmul()", "", "/usr/lib/libtorch_cpu.so"),
        ("python", "forward", "/job/model.py", ""),
        ("native", "[unknown]", "", ""),
    ]
    assert stack(capture, 1) == [("native", "operator() (anonymous)", "", "/usr/lib/x y.so")]
    assert stack(capture, 2) == [("kernel", "idle", "", "[kernel.kallsyms]")]
    assert losses(capture) == {}
    assert (capture.meta["rate_hz"], capture.meta["period_ns"]) == (990, 1_010_101)
    assert capture.columns["threads"]["name"].tolist() == ["swapper", "python3", "my job (2)"]


def test_without_a_clock_the_time_between_samples_counts(tmp_path: Path) -> None:
    text = "".join(f"a 1/1 {second}.{fraction:06}: 4000 cycles:\n\n" for second in (1, 2) for fraction in (0, 10_000))
    capture = imported(tmp_path, text)
    assert set(capture.columns["samples"]["weight_ns"].tolist()) == {10_000_000}


def test_gzip_and_cut_lines_are_read(tmp_path: Path) -> None:
    assert len(imported(tmp_path, gzip.compress(STACKS.encode())).columns["samples"]["ts_ns"]) == 3
    cut = imported(tmp_path, STACKS[: STACKS.index("libtorch")])
    assert losses(cut) == {"bad_lines": 1, "perf_truncated": 1}
    assert len(stack(cut, 0)) == 1


def test_what_cannot_be_read_is_counted(tmp_path: Path) -> None:
    text = f"{STACKS}\nsomething else\nb 1/1 12.0: 5 page-faults:\n\n\t12 lonely (frame)\n"
    capture = imported(tmp_path, text)
    assert losses(capture) == {"bad_lines": 2, "other_events": 1}
    place = text.splitlines().index("something else") + 1
    assert f"line {place} " in capture.columns["losses"]["place"][0]


def test_hostile_lines_take_no_time(tmp_path: Path) -> None:
    lines = [" " * 1_000_000 + "(x", "a " * 500_000, "1 " * 2_000, "x" * 3_000_000, "\t1 " + " (" * 100_000]
    capture = imported(tmp_path, STACKS + "\n".join(lines) + "\n")
    assert losses(capture)["bad_lines"] >= 4


def test_text_without_a_sample_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="its content is none of"):
        imported(tmp_path, "# a comment\nand no sample\n")


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(STACKS) - 1), st.integers(0, 255)), max_size=12),
    st.integers(0, len(STACKS)),
)
def test_damage_never_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(STACKS.encode())
    for place, value in flips:
        data[place] = value
    with contextlib.suppress(CaptureError):
        imported(tmp_path_factory.getbasetemp(), bytes(data[:cut]))
