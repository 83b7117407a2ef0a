"""USDT probes of other programs that the user names: every hit arrives with its arguments, and nothing stays behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from capture_questions import losses, range_names
from own_agent import OTHER_USER, OwnAgent

import pillion
from pillion._capture import Capture
from pillion._probes import parse_probe
from pillion_agent.elf import ELF
from pillion_agent.operands import parse_operand
from pillion_agent.programs import kernel_release
from pillion_probes import CONSTANTS

Recording = Callable[..., Any]
Target = Callable[..., Any]
CompileC = Callable[..., Path]

MARK, RANGE = CONSTANTS["PLN_MARK"], CONSTANTS["PLN_RANGE"]


@pytest.fixture(scope="session")
def provider(compile_c: CompileC) -> Path:
    """The library of usdt_provider.c."""
    return compile_c("usdt_provider.c", "-shared", "-fPIC")


def probes(*texts: object) -> dict[str, Any]:
    return {"probes": tuple(parse_probe(str(text)) for text in texts)}


def hits(capture: Capture, kind: int = MARK) -> list[tuple[str, str]]:
    """Name and arguments of what came from the user's probes."""
    events = capture.columns["events"]
    of_probes = (events["source"] == CONSTANTS["PLN_SOURCE_USDT"]) & (events["kind"] == kind)
    texts = capture.columns["strings"]["text"]
    return [(texts[events["name"][row]], texts[events["args"][row]]) for row in of_probes.nonzero()[0]]


def rows(capture: Capture, name: str) -> list[dict[str, Any]]:
    """Events of a name, as dictionaries."""
    events = capture.columns["events"]
    places = [row for row, text in enumerate(range_names(capture)) if text == name]
    return [{key: column[row] for key, column in events.items()} for row in places]


# ---- arguments ----


@pytest.mark.parametrize("flags", [(), ("-no-pie", "-fno-pie")], ids=["pie", "fixed"])
def test_an_argument_is_read_wherever_it_is(
    recording: Recording, target: Target, compile_c: CompileC, flags: tuple[str, ...]
) -> None:
    program = compile_c("usdt_operands.c", *flags)
    victim = target(program, wait=True)
    session = recording(victim.pid, rate_hz=0, **probes(f"{program}:operands:*"))
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    capture = session.finish()
    expected = {
        "registers": "-7 2 -1 3 -4 254 0x123456789abc 5 -6 7 8 -9",
        "memory": "11 -13 17 -13 11 7 -13 19 23 ? ? 17",
        "constants": "5 -3 16 1 -1 0xffffffffffffffff",
        "header": f"-1 255 -2 3000000000 -4 1 {_shown(truth['pointer'])} 1 ?",
    }
    if flags:
        address = parse_operand("8@$global_counter", 0, _symbols_of(program), relocatable=False).value
        expected["constants"] += f" {address} 23 -13 19"
    assert Counter(hits(capture)) == {
        (f"operands:{name}", _numbered(values)): truth["hits"] for name, values in expected.items()
    }
    assert {row["value"] for row in rows(capture, "operands:registers")} == {2**64 - 7}
    assert {row["value"] for row in rows(capture, "operands:memory")} == {11}
    assert not losses(capture)


def _numbered(values: str) -> str:
    return " ".join(f"arg{place}={value}" for place, value in enumerate(values.split(), 1))


def _shown(pointer: str) -> str:
    return pointer if int(pointer, 16) >= 1 << 32 else str(int(pointer, 16))


def _symbols_of(program: Path) -> Callable[[str], int]:
    with ELF(program) as elf:
        address = elf.symbol("global_counter", static=True)
    return lambda name: address


# ---- which processes ----


@pytest.mark.parametrize("place", ["path", "name"])
def test_each_process_that_maps_the_library_later_is_heard(
    recording: Recording, target: Target, provider: Path, place: str
) -> None:
    """A process that loads it in the middle, its fork, a program that the process executes; and no other process."""
    stranger = target("usdt_steps", provider, wait=True)
    victim = target("usdt_steps", provider, wait=True)
    named = provider if place == "path" else provider.name
    session = recording(victim.pid, rate_hz=0, follow=True, **probes(f"{named}:provider:step"))
    stranger.go()
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    strange = stranger.answer()  # it waits until the semaphore is up, in its process as well
    capture = session.finish()
    assert strange["semaphore"] == truth["semaphore"] == 1
    assert Counter(hits(capture)) == Counter(
        ("provider:step", f"arg1={number} arg2={-number}") for count in (101, 103, 107) for number in range(count)
    )
    events = capture.columns["events"]
    assert Counter(events["pid"].tolist()) == dict(zip(truth["pids"], (101, 103, 107)))
    assert not losses(capture)


def test_sessions_share_a_probe_and_each_hears_its_own(recording: Recording, target: Target, provider: Path) -> None:
    victims = [target("usdt_steps", provider, wait=True) for _ in range(3)]
    wanted = probes(f"{provider}:provider:step", f"{provider}:provider:twice")
    sessions = [recording(victim.pid, rate_hz=0, **wanted) for victim in victims]
    victims[0].go()
    sessions[0].wait_for_end()
    assert victims[0].answer()["semaphore"] == 1, "attached once, for all"
    captures = [sessions[0].finish()]
    for victim, session in zip(victims[1:], sessions[1:]):
        victim.go()
        session.wait_for_end()
        victim.answer()
        captures.append(session.finish())
    for victim, capture in zip(victims, captures):
        assert len(hits(capture)) == 101
        assert set(capture.columns["events"]["pid"]) == {victim.pid}
        assert not losses(capture)


def test_after_the_session_nothing_is_attached(
    public_agent: OwnAgent, record_with: Recording, target: Target, provider: Path
) -> None:
    files = public_agent.open_files()
    victim = target("usdt_steps", provider, "--untraced", wait=True)
    session = record_with(public_agent, victim.pid, rate_hz=0, follow=True, **probes(f"{provider}:*:*"))
    session.finish()
    victim.go()
    assert victim.answer()["semaphore"] == 0
    assert public_agent.sessions() == 0
    assert public_agent.open_files() == files


def test_any_file_that_is_mapped_is_searched_where_no_path_is_named(
    recording: Recording, target: Target, provider: Path
) -> None:
    victim = target("usdt_ranges", provider, wait=True)
    session = recording(victim.pid, rate_hz=0, **probes(":provider:step"))
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    capture = session.finish()
    assert {name for name, _ in hits(capture)} == {"provider:step"}
    assert len(hits(capture)) == truth["threads"] * truth["rounds"]
    assert not losses(capture)


def test_a_file_that_has_no_name_any_more_is_read_through_the_process(
    recording: Recording, target: Target, provider: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "libgone.so"
    shutil.copy(provider, copy)
    victim = target("usdt_ranges", copy, wait=True)
    copy.unlink()
    session = recording(victim.pid, rate_hz=0, **probes("libgone.so:provider:step"))
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    assert len(hits(session.finish())) == truth["threads"] * truth["rounds"]


def test_hits_that_find_no_room_are_counted(
    public_agent: OwnAgent, record_with: Recording, target: Target, provider: Path
) -> None:
    victim = target("usdt_steps", provider, "--steps", 100_003, "--alone", wait=True)
    session = record_with(public_agent, victim.pid, rate_hz=0, **probes(f"{provider}:provider:step"))
    os.kill(public_agent.pid, signal.SIGSTOP)
    try:
        victim.go()
        victim.answer()
    finally:
        os.kill(public_agent.pid, signal.SIGCONT)
    capture = session.finish()  # its end may have found no room either
    lost = losses(capture)["probe_hits"]
    assert 0 < lost < 100_003
    assert len(hits(capture)) + lost == 100_003


# ---- ranges ----


def test_two_ends_are_a_range_of_their_thread_inside_the_ranges_of_the_job(
    recording: Recording, target: Target, provider: Path
) -> None:
    victim = target("usdt_ranges", provider, wait=True)
    session = recording(victim.pid, rate_hz=0, **probes(f"{provider}:provider:*"))
    victim.go()
    session.wait_for_end()
    truth = victim.answer()
    capture = session.finish()
    count = truth["threads"] * truth["rounds"]
    names = range_names(capture)
    events = capture.columns["events"]
    works = [row for row in rows(capture, "provider:work") if row["kind"] == RANGE]
    whole = [row for row in works if not row["flags"]]
    texts = capture.columns["strings"]["text"]
    assert Counter(texts[row["args"]] for row in whole) == Counter(
        [f"arg1={n} end: arg1={-n}" for n in range(truth["rounds"])] * truth["threads"] + ["arg1=1001 end: arg1=1003"]
    )
    assert all(names[row["parent"]] == "outer" for row in whole if row["value"] < 1000)
    parents = {"provider:inner": "provider:work", "provider:step": "provider:inner"}
    for name, parent in parents.items():
        inside = [row for row in rows(capture, name) if row["kind"] == MARK or not row["flags"]]
        inside = [row for row in inside if row["parent"] >= 0]
        assert len(inside) == count
        for row in inside:
            assert names[row["parent"]] == parent
            assert events["start_ns"][row["parent"]] <= row["start_ns"] <= row["end_ns"]
            assert row["end_ns"] <= events["end_ns"][row["parent"]]
            assert events["tid"][row["parent"]] == row["tid"]
    assert not losses(capture)


def test_an_end_without_its_beginning_and_a_beginning_without_its_end_are_kept(
    recording: Recording, target: Target, provider: Path
) -> None:
    victim = target("usdt_ranges", provider, wait=True)
    session = recording(victim.pid, rate_hz=0, **probes(f"{provider}:provider:*"))
    victim.go()
    session.wait_for_end()
    victim.answer()
    capture = session.finish()
    texts = capture.columns["strings"]["text"]
    unfinished = [
        (name, texts[row["args"]])
        for name in ("provider:work", "provider:inner")
        for row in rows(capture, name)
        if row["flags"] == CONSTANTS["PLN_UNFINISHED"]
    ]
    assert sorted(unfinished) == [("provider:inner", ""), ("provider:work", "arg1=1004")]
    marks = [hit for hit in hits(capture) if hit[0] in ("provider:work", "provider:inner")]
    assert sorted(marks) == [("provider:inner", ""), ("provider:work", "arg1=1002")]


# ---- what is refused ----


@pytest.fixture
def long_nop(compile_c: CompileC) -> Path:
    if kernel_release() < (6, 18):
        pytest.skip("needs Linux 6.18, which makes a nop of five bytes a call")
    return compile_c("usdt_long_nop.c")


def test_a_probe_that_would_break_the_job_is_left_out(recording: Recording, target: Target, long_nop: Path) -> None:
    victim = target(long_nop, wait=True)
    session = recording(victim.pid, rate_hz=0, **probes(f"{long_nop}:long:*"))
    victim.go()
    session.wait_for_end()
    assert victim.answer()["wrong"] == 0
    capture = session.finish()
    assert hits(capture) == []
    assert losses(capture) == {"probe_refused": 1}


def test_a_probe_that_would_break_the_job_is_refused(recording: Recording, target: Target, long_nop: Path) -> None:
    victim = target(long_nop, wait=True)
    with pytest.raises(pillion.PillionError, match=r"cannot attach to long:kept: .*: no place of it can be used"):
        recording(victim.pid, rate_hz=0, **probes(f"{long_nop}:long:kept"))
    assert victim.answer()["wrong"] == 0


@pytest.mark.parametrize(
    ("probe", "code", "line"),
    [
        ("/no/such/file:a:b", 2, "cannot read the probes of /no/such/file: No such file or directory; -u PATH"),
        ("/:a:b", 2, "cannot read the probes of /: it is no regular file"),
        ("{text}:a:b", 2, "cannot read the probes of {text}: it is not a 64-bit little-endian ELF file"),
        ("{cut}:a:b", 2, "cannot read the probes of {cut}: damaged"),
        ("{provider}:other:*", 2, "no probe other:*: {provider} has provider:inner_begin, provider:inner_end, "),
        ("{provider}:provider:stop", 2, "no probe provider:stop: {provider} has provider:inner_begin, "),
        ("{probeless}:a:b", 2, "no probe a:b: {probeless} has none at all"),
        ("nonsense", 2, "'nonsense' names no probes: PATH:PROVIDER:PROBE"),
        ("libc.so.6:nobody:nothing", 2, "no probe nobody:nothing: "),
    ],
)
def test_what_cannot_be_attached_is_refused_in_one_line(
    public_agent: OwnAgent, provider: Path, tmp_path: Path, probe: str, code: int, line: str
) -> None:
    text, cut = tmp_path / "text", tmp_path / "cut.so"
    text.write_text("no ELF")
    image = bytearray(provider.read_bytes())
    at = image.index(b"stapsdt\0")  # the first note: its description is said to be longer than it is
    image[at - 8 : at - 4] = (1 << 20).to_bytes(4, "little")
    cut.write_bytes(image)
    places = {"text": text, "cut": cut, "provider": provider, "probeless": "/bin/true"}
    files = public_agent.open_files()
    result = public_agent.pillion(
        "run", "-u", probe.format(**places), "-o", tmp_path / "out", "--", "touch", tmp_path / "ran", cwd=tmp_path
    )
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (code, "", 1), result.stderr
    assert line.format(**places) in result.stderr
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "ran").exists()
    assert public_agent.sessions() == 0
    assert public_agent.open_files() == files


def test_a_library_that_nobody_mapped_is_told(recording: Recording, target: Target) -> None:
    victim = target("sleep_in_range", wait=True)
    session = recording(victim.pid, rate_hz=0, **probes("libnowhere.so:a:b"))
    victim.go()
    session.wait_for_end()
    victim.answer()
    assert losses(session.finish()) == {"no probe libnowhere.so:a:b": 1}


@pytest.mark.usefixtures("require_users")
def test_a_user_names_only_files_that_he_may_read(public_agent: OwnAgent, user_folder: Path, provider: Path) -> None:
    secret = user_folder / "libsecret.so"
    shutil.copy(provider, secret)
    os.chown(secret, 0, 0)
    secret.chmod(0o600)
    result = public_agent.pillion(
        "run", "-u", f"{secret}:provider:*", "-o", "out", "--", "true", user=OTHER_USER, cwd=user_folder
    )
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert f"cannot read the probes of {secret}: Permission denied" in result.stderr


OF_A_USER = """
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1])
for number in range(103): library.provider_step(ctypes.c_long(number))
if sys.argv[2] == "fork" and os.fork() == 0:
    os._exit(0)
print(library.provider_traced(), flush=True)
sys.stdin.readline()
"""


@pytest.mark.usefixtures("require_users")
@pytest.mark.parametrize("forks", ["alone", "fork"])
def test_a_user_stops_and_hears_only_his_own_processes(
    public_agent: OwnAgent, user_folder: Path, provider: Path, target: Target, forks: str
) -> None:
    library = user_folder / "libown.so"
    shutil.copy(provider, library)
    library.chmod(0o755)
    of_root = target("usdt_steps", library, "--untraced", wait=True)
    command = [sys.executable, "-m", "pillion", "run", "-u", f"{library}:provider:step", "-o", "out", "--"]
    with subprocess.Popen(
        [*command, sys.executable, "-c", OF_A_USER, str(library), forks],
        cwd=user_folder,
        env={**os.environ, "PILLION_SOCKET": str(public_agent.directory)},
        user=OTHER_USER,
        group=OTHER_USER,
        extra_groups=[],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as recorder:
        assert recorder.stdout
        assert recorder.stdout.readline() == b"1\n"
        of_root.go()
        assert of_root.answer()["semaphore"] == 0, "it has the same library"
        recorder.communicate(b"\n")
    capture = pillion.open(user_folder / "out")
    assert len(hits(capture)) == 103
    assert losses(capture) == ({"probes_attached_late": 1} if forks == "fork" else {})
