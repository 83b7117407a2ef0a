"""ITT through a client's own list of functions: what each of them records, and what no sequence of calls may do."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from typing import Any

import pytest
from itt_tables import LIBRARY, NOT_COLLECTED, PROTOTYPES, Domain, Id, Itt, String

from pillion._native import lib
from pillion_probes import CONSTANTS

NONE = Id()
ASYNC = CONSTANTS["PLN_ASYNC"]
U64, S64, U32, S32, U16, S16, FLOAT, DOUBLE = range(1, 9)


# ---- ranges ----


def test_tasks_nest_in_their_domains(recording: Any) -> None:
    itt = Itt()
    first, second = itt.domain_create(b"first"), itt.domain_create(b"second")
    outer, inner = itt.string_handle_create(b"outer"), itt.string_handle_create(b"inner")
    itt.task_begin(first, NONE, NONE, outer)
    itt.task_begin_ex(second, None, 0, Id(1, 2, 3), NONE, inner)
    itt.task_end(first)
    itt.task_end_ex(second, None, 0)
    itt.task_end(second)  # one too many
    recording.end()
    assert recording.spool.said() == [("outer", "first"), ("inner", "second")]
    outer_range, inner_range = recording.spool.records()
    assert inner_range["parent"] == outer_range["seq"]
    assert outer_range["source"] == lib.PLN_SOURCE_ITT


def test_a_task_of_a_function_has_its_name(recording: Any) -> None:
    itt = Itt()
    domain = itt.domain_create(b"functions")
    exported = ctypes.cast(ctypes.CDLL(str(LIBRARY)).pln_setup, ctypes.c_void_p).value
    assert exported is not None
    for function in (exported, exported + 1, 1):
        itt.task_begin_fn(domain, NONE, NONE, function)
        itt.task_end(domain)
    recording.end()
    known, inside, nowhere = (name for name, _ in recording.spool.said())
    assert known == "pln_setup"
    assert "libpillion" in inside
    assert "+0x" in inside
    assert nowhere == "0x1"


def test_overlapped_tasks_and_regions_end_by_their_id_in_any_thread(recording: Any) -> None:
    itt = Itt()
    domain, name = itt.domain_create(b"ids"), itt.string_handle_create(b"overlapped")
    region = itt.string_handle_create(b"region")
    ids = [Id(1, 0, 0), Id(0, 1, 0), Id(0, 0, 1)]
    for number in ids:
        itt.task_begin_overlapped(domain, number, NONE, name)
    itt.region_begin(domain, ids[0], NONE, region)
    itt.task_begin_overlapped_ex(domain, None, 0, Id(7, 7, 7), NONE, name)

    def end() -> None:
        itt.task_end_overlapped(domain, ids[1])
        itt.task_end_overlapped(itt.domain_create(b"another"), ids[0])
        itt.task_end_overlapped(domain, Id(1, 1, 1))
        itt.region_end(domain, ids[0])

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    itt.task_end_overlapped(domain, ids[1])  # again
    itt.task_end_overlapped(domain, ids[0])
    itt.task_end_overlapped_ex(domain, None, 0, Id(7, 7, 7))
    recording.end()
    records = recording.spool.records()
    ended = [
        (recording.spool.text(record["name"]), recording.spool.text(record["args"]), int(record["flags"]))
        for record in records
    ]
    assert sorted(ended) == [
        ("overlapped", "", CONSTANTS["PLN_UNFINISHED"]),  # what is open is known by its name alone
        ("overlapped", "ids", 0),
        ("overlapped", "ids", 0),
        ("overlapped", "ids", ASYNC),
        ("region", "ids\x1fregion", ASYNC),
    ]


def test_frames_are_ranges_of_their_domain(recording: Any) -> None:
    itt = Itt()
    domain = itt.domain_create(b"render")
    itt.frame_begin_v3(domain, None)
    itt.frame_begin_v3(domain, None)  # ITT ignores it
    itt.frame_begin_v3(domain, Id(5, 0, 0))
    itt.frame_end_v3(domain, None)
    itt.frame_end_v3(domain, None)
    itt.frame_end_v3(domain, Id(5, 0, 0))
    begin = itt.get_timestamp()
    end = itt.get_timestamp()
    itt.frame_submit_v3(domain, None, begin, end)
    itt.frame_submit_v3(domain, None, begin, 2**64 - 1)
    recording.end()
    assert recording.spool.said() == [("render", "render\x1fframe")] * 4
    submitted = recording.spool.records()[2:]
    assert submitted["start_ns"].tolist() == [begin, begin]
    assert submitted["end_ns"][0] == end
    assert submitted["end_ns"][1] > end
    assert not recording.losses()


def test_frames_with_times_of_another_clock_are_counted(recording: Any) -> None:
    itt = Itt()
    domain = itt.domain_create(b"render")
    now = itt.get_timestamp()
    for begin, end in ((0, now), (now, now - 1), (now, now + 10**12)):
        itt.frame_submit_v3(domain, None, begin, end)
    recording.end()
    assert recording.spool.said() == []
    assert recording.losses() == {CONSTANTS["PLN_RANGE"]: 3}


def test_events_are_ranges_without_a_domain(recording: Any) -> None:
    itt = Itt()
    first, second = itt.event_create(b"first", 5), itt.event_create(b"second and more", 6)
    assert itt.event_create(b"first", 5) == first
    assert [itt.event_start(first), itt.event_start(second), itt.event_end(first), itt.event_end(second)] == [0] * 4
    assert [itt.event_start(0), itt.event_end(-1), itt.event_start(4097), itt.event_end(second + 1)] == [1] * 4
    recording.end()
    assert recording.spool.said() == [("first", "\x1fevent"), ("second", "\x1fevent")]


# ---- marks ----


def test_markers_have_their_domain(recording: Any) -> None:
    itt = Itt()
    domain, name = itt.domain_create(b"of markers"), itt.string_handle_create(b"here")
    itt.marker(domain, NONE, name, 2)
    itt.marker_ex(domain, None, 0, Id(1, 2, 3), name, 1)
    recording.end()
    assert recording.spool.said("PLN_MARK") == [("here", "of markers")] * 2


@pytest.mark.parametrize(
    ("metadata_type", "code", "value", "kind", "recorded"),
    [
        (U64, "<Q", 2**64 - 1, "", 2**64 - 1),
        (S64, "<q", -3, "signed", 2**64 - 3),
        (U32, "<I", 2**32 - 1, "", 2**32 - 1),
        (S32, "<i", -3, "signed", 2**64 - 3),
        (S32, "<i", 3, "", 3),
        (U16, "<H", 65_535, "", 65_535),
        (S16, "<h", -1, "signed", 2**64 - 1),
        (FLOAT, "<f", 0.5, "double", struct.unpack("<Q", struct.pack("<d", 0.5))[0]),
        (DOUBLE, "<d", -0.1, "double", struct.unpack("<Q", struct.pack("<d", -0.1))[0]),
    ],
)
def test_a_counter_is_read_by_its_type(
    recording: Any, metadata_type: int, code: str, value: float, kind: str, recorded: int
) -> None:
    itt = Itt()
    counter = itt.counter_create_typed(b"of type %d" % metadata_type, b"numbers", metadata_type)
    place = ctypes.create_string_buffer(struct.pack(code, value) + b"\xaa" * 8)
    itt.counter_set_value(counter, place)
    itt.counter_set_value_v3(counter, place)
    itt.counter_set_value_ex(counter, None, 0, place)
    recording.end()
    args = "numbers\x1fcounter" + (f"\x1f{kind}" if kind else "")
    assert recording.spool.said("PLN_MARK") == [(f"of type {metadata_type}", args)] * 3
    assert recording.spool.records("PLN_MARK")["value"].tolist() == [recorded] * 3


def test_counters_count_on_while_nobody_records(collect: Callable[..., Any]) -> None:
    itt = Itt()
    domain, name = itt.domain_create(b"sums"), itt.string_handle_create(b"by name")
    counter = itt.counter_create(b"by handle", b"sums")
    assert itt.counter_create_v3(domain, b"by handle", U64) == counter
    itt.counter_inc(counter)
    itt.counter_inc_delta(counter, 100)
    collector = collect()
    collector.begin()
    itt.counter_dec(counter)
    itt.counter_dec_delta(counter, 40)
    itt.counter_inc_v3(domain, name)
    itt.counter_inc_delta_v3(domain, name, 10)
    itt.counter_dec_v3(domain, name)
    itt.counter_dec_delta_v3(domain, name, 13)
    collector.end()
    values = collector.spool.records("PLN_MARK")["value"].astype("i8").tolist()
    assert values == [100, 60, 1, 11, 10, -3]
    assert collector.spool.said("PLN_MARK")[-1] == ("by name", "sums\x1fcounter\x1fsigned")


def test_nothing_happens_to_counters_that_are_none(recording: Any) -> None:
    itt = Itt()
    itt.counter_inc(itt.counter_create(None, b"x"))
    itt.counter_set_value(None, None)
    itt.counter_set_value(itt.counter_create(b"no type", None), None)
    unknown = itt.counter_create_typed(b"unknown", None, 99)
    itt.counter_set_value(unknown, ctypes.create_string_buffer(16))
    recording.end()
    assert recording.spool.said("PLN_MARK") == []


# ---- metadata ----


def test_metadata_is_told_in_the_task_that_it_is_of(recording: Any) -> None:
    itt = Itt()
    domain = itt.domain_create(b"data")
    task, size, shape, layer = (itt.string_handle_create(name) for name in (b"task", b"size", b"shape", b"layer"))
    itt.task_begin(domain, NONE, NONE, task)
    itt.metadata_add(domain, Id(1, 2, 3), size, S32, 1, ctypes.byref(ctypes.c_int32(-7)))
    itt.metadata_add(domain, NONE, shape, U16, 3, (ctypes.c_uint16 * 3)(3, 224, 65535))
    itt.metadata_add_with_scope(domain, 1, shape, DOUBLE, 2, (ctypes.c_double * 2)(0.5, -1e300))
    itt.metadata_str_add(domain, NONE, layer, b"conv1 and more", 5)
    itt.metadata_str_add_with_scope(domain, 1, layer, "größe".encode(), 0)
    itt.task_end(domain)
    recording.end()
    assert recording.spool.said("PLN_MARK") == [
        ("size", "data\x1fmetadata\x1fsigned"),
        ("shape: 3 224 65535", "data\x1fmetadata"),
        ("shape: 0.5 -1e+300", "data\x1fmetadata"),
        ("layer: conv1", "data\x1fmetadata"),
        ("layer: größe", "data\x1fmetadata"),
    ]
    marks, (task_range,) = recording.spool.records("PLN_MARK"), recording.spool.records()
    assert marks["value"].astype("i8").tolist() == [-7, 0, 0, 0, 0]
    assert set(marks["parent"].tolist()) == {task_range["seq"]}


def test_metadata_that_is_none_or_too_much_does_no_harm(recording: Any) -> None:
    itt = Itt()
    domain, key = itt.domain_create(b"data"), itt.string_handle_create(b"key")
    numbers = (ctypes.c_int64 * 4_099)(*[-(2**63)] * 4_099)
    for kind, count, place in ((99, 1, numbers), (0, 1, numbers), (S64, 0, numbers), (S64, 1, None)):
        itt.metadata_add(domain, NONE, key, kind, count, place)
    itt.metadata_add(domain, NONE, None, S64, 1, numbers)
    itt.metadata_str_add(domain, NONE, key, None, 3)
    assert recording.spool.said("PLN_MARK") == []
    itt.metadata_add(domain, NONE, key, S64, len(numbers), numbers)
    itt.metadata_str_add(domain, NONE, key, b"x" * 100_003, 100_003)
    itt.metadata_add(domain, NONE, itt.string_handle_create(b"k" * 5_003), S64, 2, numbers)
    recording.end()
    names = [name for name, _ in recording.spool.said("PLN_MARK")]
    assert [(name[:5], 1000 < len(name) < 1024) for name in names] == [
        ("key: ", True),
        ("key: ", True),
        ("kkkkk", True),
    ]


# ---- threads and clients ----


def test_a_thread_has_the_name_that_it_gave_itself(recording: Any) -> None:
    itt = Itt()

    def work() -> None:
        itt.thread_set_name(b"io worker")
        tids.append(threading.get_native_id())

    tids: list[int] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    recording.end()
    threads = recording.spool.records("PLN_THREAD")
    names = {recording.spool.text(record["name"]) for record in threads[threads["tid"] == tids[0]]}
    assert names == {"io worker"}


def test_clients_share_domains_and_the_objects_that_they_made_before(recording: Any) -> None:
    domain_before = Domain(flags=1, name=b"shared")
    string_before = String(text=b"made by the client")
    first, second = Itt(), Itt()
    shared = second.domain_create(b"shared")
    assert ctypes.addressof(first.domain_create(b"shared").contents) == ctypes.addressof(shared.contents)
    assert shared.contents.flags
    first.task_begin(domain_before, NONE, NONE, string_before)
    second.task_end(shared)
    second.task_begin(shared, NONE, NONE, second.string_handle_create(b"ours"))
    first.task_end(domain_before)
    recording.end()
    assert recording.spool.said() == [("made by the client", "shared"), ("ours", "shared")]


def test_null_and_broken_names_do_no_harm(recording: Any) -> None:
    itt = Itt()
    assert not itt.domain_create(None)
    assert not itt.string_handle_create(None)
    nameless = Domain(flags=1, name=None)
    itt.task_begin(nameless, NONE, NONE, None)
    itt.task_end(nameless)
    itt.task_begin(itt.domain_create(b"\xff"), NONE, NONE, String(text=None))
    itt.task_end(itt.domain_create(b"\xff"))
    itt.thread_set_name(None)
    itt.event_create(None, 0)
    recording.end()
    assert recording.spool.records()["name"].tolist() == [0, 0]


def test_what_is_not_collected_keeps_its_null_function() -> None:
    places = Itt().places
    assert {places[name] for name in NOT_COLLECTED} == {0x2}
    assert not {places[name] for name in PROTOTYPES} & {0x1, 0x2, None}
