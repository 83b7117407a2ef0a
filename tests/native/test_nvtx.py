"""NVTX through its own tables: what each function records, and what no sequence of calls may do."""

from __future__ import annotations

import contextlib
import ctypes
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nvtx_tables import CORE, CORE2, SLOTS, Nvtx, attributes

from pillion._native import lib
from pillion_probes import CONSTANTS

HERE = Path(__file__).parent
RANGE, MARK = CONSTANTS["PLN_RANGE"], CONSTANTS["PLN_MARK"]
UNFINISHED = CONSTANTS["PLN_UNFINISHED"]
UNSIGNED_64, SIGNED_64, DOUBLE, UNSIGNED_32, SIGNED_32, FLOAT = range(1, 7)


# ---- what is recorded ----


def test_every_way_to_make_a_range_has_its_name_and_domain(recording: Any) -> None:
    nvtx = Nvtx()
    domain = nvtx.domain(b"of ours")
    registered = nvtx.string(domain, b"registered")
    nvtx.push(b"push")
    nvtx.push_wide("push \N{SNOWMAN}")
    nvtx.push_ex(attributes(b"push ex"))
    nvtx.push_ex(attributes(ctypes.c_wchar_p("push ex \N{PILL}"), message_type=2))
    assert [nvtx.pop() for _ in range(5)] == [3, 2, 1, 0, -1]
    for start in (nvtx.start(b"start"), nvtx.start_wide("start \xe9"), nvtx.start_ex(attributes(b"start ex"))):
        nvtx.end(start)
    nvtx.domain_push(domain, attributes(registered, message_type=3))
    nvtx.domain_pop(domain)
    nvtx.domain_end(domain, nvtx.domain_start(domain, attributes(b"domain start")))
    nvtx.end(nvtx.domain_start(domain, attributes(b"domain start, ended without")))
    recording.end()
    assert recording.spool.said() == [
        ("push ex \N{PILL}", ""),
        ("push ex", ""),
        ("push \N{SNOWMAN}", ""),
        ("push", ""),
        ("start", ""),
        ("start \xe9", ""),
        ("start ex", ""),
        ("registered", "of ours"),
        ("domain start", "of ours"),
        ("domain start, ended without", "of ours"),
    ]
    assert set(recording.spool.records()["source"]) == {lib.PLN_SOURCE_NVTX}
    assert not recording.losses()


def test_marks_have_domain_category_and_payload(recording: Any) -> None:
    nvtx = Nvtx()
    domain = nvtx.domain(b"of marks")
    nvtx.domain_name_category(domain, 7, b"seventh")
    nvtx.mark(b"text")
    nvtx.mark_wide("wide")
    nvtx.mark_ex(attributes(b"ex", category=3))
    nvtx.domain_mark(domain, attributes(b"all", category=7, payload_type=UNSIGNED_64, payload=1_000_003))
    recording.end()
    assert recording.spool.said("PLN_MARK") == [("text", ""), ("wide", ""), ("ex", ""), ("all", "of marks\x1fseventh")]
    marks = recording.spool.records("PLN_MARK")
    assert marks["scope"].tolist() == [0, 0, 3, 7]
    assert marks["value"].tolist() == [0, 0, 0, 1_000_003]


def test_a_category_has_the_name_that_its_domain_gave_it_last(recording: Any) -> None:
    nvtx = Nvtx()
    first, second = nvtx.domain(b"first"), nvtx.domain(b"second")
    nvtx.domain_name_category(first, 1, b"one")
    nvtx.domain_name_category_wide(second, 1, "\xe9ins")
    nvtx.name_category(1, b"default one")
    nvtx.name_category_wide(2, "default two")

    def show(domain: int | None, category: int) -> None:
        nvtx.domain_push(domain, attributes(b"x", category=category))
        nvtx.domain_pop(domain)

    for domain, category in ((first, 1), (second, 1), (None, 1), (None, 2), (first, 2)):
        show(domain, category)
    nvtx.domain_name_category(first, 1, b"renamed")
    show(first, 1)
    recording.end()
    assert [args for _, args in recording.spool.said()] == [
        "first\x1fone",
        "second\x1f\xe9ins",
        "\x1fdefault one",
        "\x1fdefault two",
        "first",
        "first\x1frenamed",
    ]


@pytest.mark.parametrize(
    ("payload_type", "bits", "value", "kind"),
    [
        (0, 7, 0, ""),
        (UNSIGNED_64, 2**64 - 1, 2**64 - 1, ""),
        (SIGNED_64, 5, 5, ""),
        (SIGNED_64, 2**64 - 5, 2**64 - 5, "signed"),
        (UNSIGNED_32, 0xDEAD_BEEF_0000_0007, 7, ""),
        (SIGNED_32, 0xDEAD_BEEF_FFFF_FFFF, 2**64 - 1, "signed"),
        (SIGNED_32, 0xDEAD_BEEF_0000_0001, 1, ""),
        (DOUBLE, int.from_bytes(struct.pack("<d", -0.1), "little"), struct.pack("<d", -0.1), "double"),
        (FLOAT, int.from_bytes(struct.pack("<f", 0.5), "little") | 0xBAD << 32, struct.pack("<d", 0.5), "double"),
        (0xDFBD0009 - 2**32, 0x7F00_0000_1234, 0, ""),  # the payload extension's: an address
    ],
)
def test_a_payload_is_read_by_its_type(
    recording: Any, payload_type: int, bits: int, value: int | bytes, kind: str
) -> None:
    nvtx = Nvtx()
    nvtx.end(nvtx.start_ex(attributes(b"x", payload_type=payload_type, payload=bits)))
    recording.end()
    (record,) = recording.spool.records()
    assert record["value"] == (value if isinstance(value, int) else int.from_bytes(value, "little"))
    assert recording.spool.said() == [("x", f"\x1f\x1f{kind}" if kind else "")]


def test_threads_have_the_names_that_the_job_gave_them_in_every_session(collect: Callable[..., Any]) -> None:
    nvtx = Nvtx()
    named, finish = threading.Event(), threading.Event()
    texts: list[dict[int, str]] = []
    tids: list[int] = []

    def work() -> None:
        tids.append(threading.get_native_id())
        nvtx.name_thread(threading.get_native_id(), b"worker")
        named.set()
        for _ in range(2):
            finish.wait()
            nvtx.mark(b"x")
            finish.clear()
            named.set()

    thread = threading.Thread(target=work)
    thread.start()
    named.wait()
    for name in ("worker", "renamed by another"):
        collector = collect()
        collector.begin()
        named.clear()
        if name != "worker":
            nvtx.name_thread_wide(tids[0], name)
        finish.set()
        named.wait()
        collector.end()
        records = collector.spool.records("PLN_THREAD")
        texts.append({int(record["tid"]): collector.spool.text(record["name"]) for record in records})
    thread.join()
    assert [names[tids[0]] for names in texts] == ["worker", "renamed by another"]


def test_a_handle_serves_every_object_of_the_process(recording: Any) -> None:
    first, second = Nvtx(), Nvtx()
    domain = first.domain(b"shared")
    assert second.domain(b"shared") == second.domain_wide("shared") == domain
    string = first.string(domain, b"text")
    assert second.string(None, b"text") == second.string_wide(None, "text") == string
    first.domain_push(domain, attributes(string, message_type=3))
    second.domain_pop(domain)
    recording.end()
    assert recording.spool.said() == [("text", "shared")]


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=50))
@settings(max_examples=60, deadline=None)
def test_wide_texts_arrive_whole(text: str) -> None:
    nvtx = Nvtx()
    assert nvtx.string_wide(None, text) == nvtx.string(None, text.encode())


def test_what_is_no_character_is_replaced() -> None:
    nvtx = Nvtx()
    wide = (ctypes.c_uint32 * 5)(0x61, 0xD800, 0x110000, 0xFFFFFFFF, 0)
    text = ctypes.cast(ctypes.addressof(wide), ctypes.c_wchar_p)
    register = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_wchar_p)(nvtx.slots[CORE2][11])
    assert register(None, text) == nvtx.string(None, "a\ufffd\ufffd\ufffd".encode())


def test_wide_texts_are_cut_between_characters() -> None:
    nvtx = Nvtx()
    assert nvtx.string_wide(None, "x" + "\N{PILL}" * 5000) == nvtx.string(None, ("x" + "\N{PILL}" * 1023).encode())


# ---- what may not be relied on ----


def test_null_and_broken_names_are_recorded(recording: Any) -> None:
    nvtx = Nvtx()
    for name in (None, b"", b"\xff\xfe", b"x" * (CONSTANTS["PLN_NAME_MAX"] + 1)):
        nvtx.push(name)
        nvtx.pop()
    nvtx.push_wide(None)
    nvtx.pop()
    too_small = attributes(b"unseen", category=5)
    too_small.size = 40
    nvtx.push_ex(too_small)
    nvtx.domain_push(nvtx.domain(None), attributes(nvtx.string(None, None), message_type=3))
    nvtx.domain_push(nvtx.domain(b"\xff"), attributes(None))
    nvtx.domain_pop(nvtx.domain(b"\xff"))
    nvtx.domain_pop(nvtx.domain(None))
    nvtx.pop()
    recording.end()
    log = recording.spool.log()
    names = [int(record["name"]) for record in recording.spool.records()]
    lengths = [int.from_bytes(log[name * 8 : name * 8 + 4], "little") for name in names]
    assert lengths == [0, 0, 2, CONSTANTS["PLN_NAME_MAX"], 0, 0, 0, 0]


@contextlib.contextmanager
def session(collect: Callable[..., Any]) -> Iterator[Any]:
    """A recording for one example of hypothesis."""
    collector = collect()
    collector.begin()
    try:
        yield collector
    finally:
        collector.end()


def names_of_ended(collector: Any) -> list[str]:
    records = collector.spool.records()
    return [collector.spool.text(record["name"]) for record in records if not record["flags"] & UNFINISHED]


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(0, 2)),
        st.tuples(st.just("pop"), st.integers(0, 2)),
    ),
    max_size=60,
)


@given(operations=OPERATIONS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pushes_and_pops_are_matched_in_their_domains(
    collect: Callable[..., Any], operations: list[tuple[str, int]]
) -> None:
    nvtx = Nvtx()
    domains = [None, nvtx.domain(b"one"), nvtx.domain(b"two")]
    open_ranges = [0, 0, 0]
    with session(collect) as collector:
        for what, which in operations:
            if what == "push":
                assert nvtx.domain_push(domains[which], attributes(b"%d" % which)) == open_ranges[which]
                open_ranges[which] += 1
            else:
                assert nvtx.domain_pop(domains[which]) == open_ranges[which] - 1
                open_ranges[which] = max(open_ranges[which] - 1, 0)
        for which, count in enumerate(open_ranges):
            for _ in range(count):
                nvtx.domain_pop(domains[which])
    pushed = Counter(str(which) for what, which in operations if what == "push")
    assert Counter(names_of_ended(collector)) == pushed


@given(
    operations=st.lists(
        st.one_of(st.just("start"), st.integers(0, 20), st.integers(0, 2**64 - 1), st.just("again")), max_size=60
    )
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_end_without_a_start_does_nothing(collect: Callable[..., Any], operations: list[str | int]) -> None:
    nvtx = Nvtx()
    started: list[int] = []
    ended: list[int] = []
    with session(collect) as collector:
        for what in operations:
            if what == "start":
                started.append(nvtx.start(b"x"))
            elif what == "again":
                nvtx.end(ended[-1] if ended else 0)
            elif isinstance(what, int) and what <= 20 and started:
                ended.append(started.pop(what % len(started)))
                nvtx.end(ended[-1])
            elif what not in started:
                nvtx.end(int(what))
        for number in started:
            nvtx.end(number)
    assert len({*started, *ended}) == operations.count("start")
    assert len(names_of_ended(collector)) == operations.count("start")


def test_pops_find_their_pushes_when_sessions_come_and_go(collect: Callable[..., Any]) -> None:
    nvtx = Nvtx()
    assert nvtx.push(b"before") == -2, "as without a tool"
    first = collect()
    first.begin()
    nvtx.push(b"left open")
    nvtx.push(b"whole")
    nvtx.pop()
    first.end()
    assert nvtx.push(b"between") == 1, "above one that is open"
    second = collect()
    second.begin()
    nvtx.push(b"inner")
    assert [nvtx.pop() for _ in range(4)] == [2, 1, 0, -1]
    second.end()
    assert [first.spool.text(record["name"]) for record in first.spool.records()] == ["whole", "left open"]
    assert first.spool.records()["flags"].tolist() == [0, UNFINISHED]
    assert [name for name, _ in second.spool.said()] == ["inner"]


def test_ranges_beyond_all_levels_are_counted(jobs: Any, collect: Callable[..., Any]) -> None:
    pushes = 70_001
    code = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
from nvtx_tables import Nvtx
import ctypes
nvtx = Nvtx()
push, pop = nvtx._function(1, 9, ctypes.c_int, ctypes.c_char_p), nvtx._function(1, 11, ctypes.c_int)
for _ in range({pushes}):
    push(b"deep")
for _ in range({pushes}):
    pop()
nvtx.push(b"outermost")
nvtx.pop()
"""
    job = jobs.python(code, PILLION_RING_RECORDS="131072")
    _, region_fd = jobs.region()
    assert job.wait() == 0
    collector = collect(region_fd)
    collector.begin()
    collector.end()
    records = collector.spool.records()
    assert len(records) + collector.losses()[RANGE] == pushes + 1
    assert Counter(name for name, _ in collector.spool.said())["outermost"] == 1
    assert records["depth"].max() == 65_535


def test_ranges_that_overlap_without_end_do_not_bury_the_others(recording: Any) -> None:
    nvtx = Nvtx()
    started = [nvtx.start(b"overlapping")]
    for _ in range(1009):
        started.append(nvtx.start(b"overlapping"))
        nvtx.end(started[-2])
    nvtx.push(b"afterwards")
    nvtx.pop()
    nvtx.end(started[-1])
    nvtx.push(b"at last")
    nvtx.pop()
    recording.end()
    assert Counter(recording.spool.said()) == {("overlapping", ""): 1010, ("afterwards", ""): 1, ("at last", ""): 1}
    depths = {name: recording.spool.named(name)["depth"].tolist() for name in ("afterwards", "at last")}
    assert depths["afterwards"][0] <= CONSTANTS["PLN_OPEN_MAX"]
    assert depths["at last"] == [0]
    assert (recording.spool.records()["start_ns"] <= recording.spool.records()["end_ns"]).all()


# ---- the tables ----


def test_an_older_nvtx_with_fewer_functions_is_served() -> None:
    nvtx = Nvtx(slots=10)
    assert nvtx.accepted
    filled = {module: [i for i in range(SLOTS) if nvtx.slots[module][i]] for module in (CORE, CORE2)}
    assert filled == {CORE: list(range(1, 10)), CORE2: [1, 2, 3, 4, 5, 8, 9]}


def test_an_nvtx_with_other_tables_is_refused() -> None:
    assert not Nvtx(table_bytes=8).accepted


def test_all_functions_but_those_of_resources_are_served() -> None:
    nvtx = Nvtx()
    missing = {module: [i for i in range(SLOTS) if not nvtx.slots[module][i]] for module in (CORE, CORE2)}
    assert missing == {CORE: [0], CORE2: [0, 6, 7, 14, 15]}
