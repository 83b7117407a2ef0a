"""What a client may ask of probes, and how names are told apart."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillion import UsageError
from pillion._probes import ProbeChoice, opened, parse_probe
from pillion_agent.errors import AgentError
from pillion_agent.probe_pairs import Role, roles
from pillion_agent.probe_request import MAX_PATTERNS, ON_USER_PROBE, OWN_RECORDS, ProbePattern, parse_patterns
from pillion_agent.session import Request
from pillion_agent.usdt import Probe


def pattern(probe: str, library: str = "", file: int = -1) -> ProbePattern:
    return ProbePattern(ON_USER_PROBE, file, library, "p", probe)


NAMES = st.text("ab", max_size=12)


@given(st.text("ab*", max_size=8), NAMES)
def test_a_star_stands_for_anything(text: str, name: str) -> None:
    assert pattern(text).covers(Probe("p", name, 1, 0, ())) == fnmatch.fnmatchcase(name, text)


def test_a_long_name_is_soon_told() -> None:
    assert not pattern("*a" * 100 + "*b").covers(Probe("p", "a" * 100_000, 1, 0, ()))


@pytest.mark.parametrize(
    ("library", "path", "meant"),
    [
        ("libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6", True),
        ("libc.so.6", "/lib/x86_64-linux-gnu/libc.so.60", False),
        ("", "/usr/bin/python3.11", True),
        ("libc*", "/lib/libcrypt.so.1", True),
        (OWN_RECORDS[0].library, "/venv/lib/pillion/libpillion.so", True),
        (OWN_RECORDS[0].library, "/wheels/pillion.libs/libpillion-0a1b2c3d.so", True),
        (OWN_RECORDS[0].library, "/usr/lib/libpillow.so", False),
    ],
)
def test_a_library_is_named_by_the_last_part_of_its_path(library: str, path: str, meant: bool) -> None:
    assert pattern("x", library).names(path) is meant
    assert not pattern("x", library, file=0).names(path), "that one came along"


GOOD = {"library": "libc.so.6", "provider": "libc", "probe": "*"}


def test_a_request_without_probes_has_none() -> None:
    request = Request.parse({"pids": [1]}, 1)
    assert request.probes == ()
    assert not request.launch_stacks
    assert Request.parse({"pids": [1], "launch_stacks": True}, 1).launch_stacks


@pytest.mark.parametrize(
    ("items", "files"),
    [
        ({}, 0),
        ("x", 0),
        ([1], 0),
        ([{}], 0),
        ([{**GOOD, "provider": ""}], 0),
        ([{**GOOD, "probe": 1}], 0),
        ([{**GOOD, "library": "x" * 5000}], 0),
        ([{**GOOD, "file": 0}], 0),
        ([{**GOOD, "file": "0"}], 1),
        ([{**GOOD, "file": -2}], 1),
        ([GOOD], 1),
        ([{**GOOD, "file": 1}], 2),
        ([GOOD] * (MAX_PATTERNS + 1), 0),
    ],
)
def test_nonsense_is_a_bad_request(items: Any, files: int) -> None:
    with pytest.raises(AgentError) as raised:
        parse_patterns(items, files)
    assert raised.value.code == 2


def test_patterns_say_what_was_asked() -> None:
    assert list(map(str, parse_patterns([GOOD, {**GOOD, "library": "/lib/x", "file": 0}], 1))) == [
        "libc.so.6:libc:*",
        "/lib/x:libc:*",
    ]


# ---- the command line's side ----


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("/usr/bin/x:p:q", ("/usr/bin/x", "p", "q")),
        ("libc.so.6:libc:*", ("libc.so.6", "libc", "*")),
        ("C:/odd:name:p:q", ("C:/odd:name", "p", "q")),
        (":p:q", ("*", "p", "q")),
        ("./x::", ("./x", "*", "*")),
    ],
)
def test_an_option_has_three_parts(text: str, choice: tuple[str, str, str]) -> None:
    assert parse_probe(text) == ProbeChoice(*choice)


@pytest.mark.parametrize("text", ["", "x", "p:q", "::"])
def test_an_option_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="names no probes: PATH:PROVIDER:PROBE"):
        parse_probe(text)


def test_a_file_is_opened_once_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    before = os.listdir("/proc/self/fd")
    with opened([ProbeChoice(str(path), "p", "q"), ProbeChoice("lib", "p", "*"), ProbeChoice(str(path), "p", "r")]) as (
        message,
        descriptors,
    ):
        assert [os.fstat(fd).st_ino for fd in descriptors] == [path.stat().st_ino]
        assert [item.get("file") for item in message] == [0, None, 0]
        assert [pattern.probe for pattern in parse_patterns(message, len(descriptors))] == ["q", "*", "r"]
    assert os.listdir("/proc/self/fd") == before


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(UsageError, match="it is no regular file"), opened([ProbeChoice(str(path), "p", "q")]):
        pass
    assert os.listdir("/proc/self/fd") == before


# ---- two ends of a range ----


@pytest.mark.parametrize(
    ("begin", "end", "name"),
    [
        ("gc__start", "gc__done", "gc"),
        ("function__entry", "function__return", "function"),
        ("work_begin", "work_end", "work"),
        ("work_start", "work_stop", "work"),
        ("work_start", "work_end", "work"),
        ("query__start", "query__done", "query"),
        ("lock_enter", "lock_exit", "lock"),
        ("import__find__load__start", "import__find__load__done", "import__find__load"),
    ],
)
def test_two_names_are_the_ends_of_a_range(begin: str, end: str, name: str) -> None:
    assert roles("p", [end, begin, "other"]) == {
        begin: Role(f"p:{name}", False, begin),
        end: Role(f"p:{name}", True, begin),
        "other": Role("p:other"),
    }
    assert roles("p", [begin]) == {begin: Role(f"p:{begin}")}
    assert roles("p", [end]) == {end: Role(f"p:{end}")}


@pytest.mark.parametrize("names", [("a_start", "b_done"), ("a_start", "a__done"), ("restart", "done"), ("a", "b")])
def test_other_names_are_marks(names: tuple[str, str]) -> None:
    assert roles("p", names) == {name: Role(f"p:{name}") for name in names}
