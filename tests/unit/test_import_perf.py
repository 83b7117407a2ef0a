"""``perf script``'s text, in the shapes that its versions and options give it."""

from __future__ import annotations

import contextlib
import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imported_traces import losses

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


def one(tmp_path: Path, *lines: str) -> tuple[Capture, list[tuple[str, str, str, str]]]:
    """A capture of one sample, and its frames."""
    capture = imported(tmp_path, "\n".join(lines) + "\n")
    assert len(capture.columns["samples"]["ts_ns"]) == 1
    return capture, stack(capture, 0)


def test_fields_may_be_missing(tmp_path: Path) -> None:
    both = [("native", "work<int>(char*)", "", ""), ("kernel", "[unknown]", "", "")]
    lines = ("\t7f0000001234 work<int>(char*)+0x4", "\tffffffff81000010 [unknown]")
    for first in ("7/8 5.5: cycles:", "job 8 5.5: cycles:", "job 7/8 [003] 5.5: ", "8 U 5.5: cycles:u:"):
        capture, frames = one(tmp_path, first, *lines)
        assert frames == both, first
        assert (capture.columns["samples"]["tid"].tolist(), losses(capture)) == ([8], {}), first
    assert one(tmp_path, "job 8 5.5: cycles:", "\t7f00000012ab")[1] == [("native", "0x7f00000012ab", "", "")]
    assert one(tmp_path, "job 8 5.5: cycles:  7f00000012ab run+0x1")[1] == [("native", "run", "", "")]
    assert one(tmp_path, "job 8 5.5:  7f00000012ab run+0x1 (/a)")[1] == [("native", "run", "", "/a")]


def test_samples_without_times_are_counted_as_that(tmp_path: Path) -> None:
    lines = ["a b 7/8 [001] 9 cycles:u:", "\t12 f (/a)", "", "a b 8 cycles: ", "       12 f (/a)", " 13 g 1 h: (/a)"]
    capture = imported(tmp_path, "\n".join(lines) + "\n")
    samples = capture.columns["samples"]
    assert (samples["ts_ns"].tolist(), samples["tid"].tolist(), samples["cpu"].tolist()) == ([0, 0], [8, 8], [1, 0])
    assert [len(stack(capture, row)) for row in range(2)] == [1, 2]
    assert losses(capture) == {"no_times": 2}
    capture, frames = one(tmp_path, "found 2 problems:", "a 1 5.5: cycles:", "\t12 f (/a)")
    assert (len(frames), losses(capture)) == (1, {"bad_lines": 1})
    stripped = ("java 7 cycles:", "7f0000001234 A::f(B) const (/a)", "12 [unknown] ([unknown])", "12 lost")
    capture, frames = one(tmp_path, *stripped)
    assert ([name for _, name, _, _ in frames], losses(capture)) == (
        ["A::f(B) const", "[unknown]"],
        {"no_times": 1, "bad_lines": 1},
    )
    assert one(tmp_path, "a 7/8 cycles:  7f0000001234 f+0x1 (/a)")[1] == [("native", "f", "", "/a")]
    with pytest.raises(CaptureError, match="its content is none of"):
        imported(tmp_path, "found 2 problems:\n    add it (perhaps)\n")


def test_names_of_threads_and_modules_may_look_like_fields(tmp_path: Path) -> None:
    capture, frames = one(tmp_path, "a 1/2 [3]: 5 6 [001]  5.5: 9 cycles:", "\t12 f (x) (/a (b)/c d (deleted))")
    assert capture.columns["threads"]["name"].tolist() == ["a 1/2 [3]: 5"]
    assert frames == [("native", "f (x)", "", "/a (b)/c d")]
    assert one(tmp_path, ":-1 -1 5.5: cycles:")[0].columns["samples"]["pid"].tolist() == [0]


def test_tracepoints_are_events_of_their_own(tmp_path: Path) -> None:
    kinds = enumerate(("switch", "waking", "switch"))
    text = "".join(f"a 1 5.{number}: sched:sched_{kind}: who=b 12\n" for number, kind in kinds)
    capture = imported(tmp_path, text)
    assert capture.meta["trace"] == {"event": "sched:sched_switch"}
    assert losses(capture) == {"other_events": 1, "perf_fields": 3}


def test_what_samples_time_is_preferred(tmp_path: Path) -> None:
    lines = [f"a 1 5.{number}: page-faults:\na 1 6.{number}: sched:sched_switch: b=1\n" for number in range(5)]
    assert imported(tmp_path, "".join(lines)).meta["trace"] == {"event": "page-faults"}
    capture = imported(tmp_path, "".join(lines) + "a 1 7.5: instructions:u:\na 1 7.6: cycles:\na 1 7.7: cycles:\n")
    assert capture.meta["trace"] == {"event": "cycles"}
    assert losses(capture) == {"other_events": 11, "perf_fields": 5}


def test_kinds_of_cores_count_the_same_event(tmp_path: Path) -> None:
    events = enumerate(("cpu_core/cycles/P", "cpu_atom/cycles/P", "cycles:u", "cpu/event=0x3c,umask=0x1/"))
    capture = imported(tmp_path, "".join(f"a 1 5.{number}: {event}:\n" for number, event in events))
    assert capture.meta["trace"] == {"event": "cycles"}
    assert losses(capture) == {"other_events": 1}


def test_times_may_be_those_of_the_wall_clock(tmp_path: Path) -> None:
    capture = one(tmp_path, "a 1 1732328291.556716001: cycles:")[0]
    assert capture.columns["samples"]["ts_ns"].tolist() == [1_732_328_291_556_716_001]
    assert one(tmp_path, "a 1 9999999999.5: cycles:")[0].columns["samples"]["ts_ns"].tolist() == [2**62]


def test_inlined_code_is_in_the_module_around_it(tmp_path: Path) -> None:
    expected = [("native", "inner", "", "/a.so"), ("native", "outer", "", "/a.so"), ("native", "main", "", "/b")]
    first = "job 8 5.5: cycles:"
    assert one(tmp_path, first, "\t12 inner+0x2 (inlined)", "\t12 outer+0x2 (/a.so)", "\t34 main (/b)")[1] == expected
    lines = ("\t12 inner+0x2", "  x y.h:5 (inlined)", "\t12 outer+0x2 (/a.so)", "  a.c:9", "\t34 main (/b)", "  b[34]")
    capture, frames = one(tmp_path, first, *lines)
    assert frames == expected
    assert losses(capture) == {"perf_fields": 3}


def test_what_stands_beside_a_frame_is_no_part_of_it(tmp_path: Path) -> None:
    expected = [("native", "f(int)", "", "/a")]
    first = "job 8 5.5: mem:  7f0012345678   7f00000012ab f(int)+0x1 (/a) ilen: 2 insn: 75 ea"
    assert one(tmp_path, first)[1] == expected
    lines = ("job 8 5.5: mem:  7f0012345678", "\t12 f(int)+0x1 (/a+0x12)", " ilen: 2 insn: 75 ea")
    capture, frames = one(tmp_path, *lines)
    assert frames == expected
    assert losses(capture) == {"perf_fields": 2}
    assert one(tmp_path, "job 8 5.5: cycles:", "\t12 f(int) (/a)", " 0x12/0x13/P/-/-/0  0x2/0x3/M/-/-/0")[1] == expected


def test_frames_of_the_kernel_are_known_by_their_module(tmp_path: Path) -> None:
    modules = ("/lib/modules/6.1/build/vmlinux", "/usr/lib/debug/vmlinux-6.1", "[ext4]", "/x/nvidia.ko.xz")
    for module in modules:
        assert one(tmp_path, "a 1 5.5: cycles:", f"\t4711 f ({module})")[1] == [("kernel", "f", "", module)]
    for module in ("[vdso]", "[heap]", "[stack:12]", "/opt/vmlinuxtool", "/a/b.kofi"):
        assert one(tmp_path, "a 1 5.5: cycles:", f"\t4711 f ({module})")[1] == [("native", "f", "", module)]


def test_only_mangled_names_are_demangled(tmp_path: Path) -> None:
    for name, readable in (("f", "f"), ("Pi", "Pi"), ("_Z1fv", "f()"), ("_Z1fv.cold", "f() [cold]")):
        assert one(tmp_path, "a 1 5.5: cycles:", f"\t4711 {name} (/a)")[1] == [("native", readable, "", "/a")]


def test_records_that_are_no_samples_are_counted_and_losses_taken_over(tmp_path: Path) -> None:
    capture, _ = one(
        tmp_path,
        "a 0 0.000000: PERF_RECORD_MMAP -1/0: [0xffffffff81000000(0x127) @ 0]: x [kernel.kallsyms]_text",
        "a 1 [000] 5.1: PERF_RECORD_COMM: b:1/1",
        "a 1 [000] 5.2: PERF_RECORD_NAMESPACES 1/1 - nr_namespaces: 2",
        "\t\t[0/net: 0/0, 1/uts: 0/0]",
        "a 1 [000] 5.3: PERF_RECORD_LOST lost 17",
        "a 1 [000] 5.4: PERF_RECORD_FORK(1:2):(1:1)",
        "a 1 [000] 5.5: cycles:  7f00000012ab run+0x1 (/a)",
    )
    assert losses(capture) == {"perf_records": 5, "samples": 17}


def test_a_long_header_does_not_hide_what_it_is(tmp_path: Path) -> None:
    header = "# ========\n# captured on    : today\n" + "# bpf_prog_info 1: a\n" * 5_000
    assert len(one(tmp_path, header, "a 1 5.5: cycles:")[1]) == 0


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


def test_times_that_are_distances_are_said_to_be_no_times(tmp_path: Path) -> None:
    distances = [0, 10, 7, 12, 3, 11, 2, 9, 1, 8]
    text = "".join(f"job 7/7 [0] 0.0000{number:02}: cycles:\n\t401000 f (/bin/job)\n\n" for number in distances)
    assert losses(imported(tmp_path, text)) == {"unordered_times": 4}
    ordered = "".join(f"job 7/7 [0] 1.0000{number:02}: cycles:\n\t401000 f (/bin/job)\n\n" for number in range(9))
    assert losses(imported(tmp_path, ordered)) == {}
