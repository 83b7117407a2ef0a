"""Records of CUPTI's activity buffers, made by hand from the published layouts, and what is made of them."""

from __future__ import annotations

import itertools
import json
import os
import re
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, strategies

from pillion._native import ffi, lib
from pillion_probes import CONSTANTS, STRUCTS

ACTIVITY = np.dtype(STRUCTS["pln_activity"].dtype_spec())
REGION = np.dtype(STRUCTS["pln_region"].dtype_spec())
RECORD_BYTES = 224
NEWEST = lib.PLN_CUPTI_VERSION_MAX


def fields(text: str) -> dict[str, tuple[int, str]]:
    """Offset and format of each field: ``name@offset:format``."""
    parts = re.findall(r"(\w+)@(\d+):(\w+)", text)
    return {name: (int(offset), form) for name, offset, form in parts}


TIMES = "start@16:Q end@24:Q"
PLACE = "device@32:I context@36:I stream@40:I"
KERNEL = fields(
    f"{TIMES} registers@6:H device@40:I context@44:I stream@48:I grid@52:3i block@64:3i static@76:i dynamic@80:i"
    " local@84:I correlation@92:I name@104:Q node@144:Q graph@156:I cluster@176:3I"
)
COPY = fields(
    f"{TIMES} {PLACE} copyKind@4:B srcKind@5:B dstKind@6:B flags@7:B bytes@8:Q correlation@44:I node@64:Q graph@72:I"
)
PEER_COPY = fields(f"{TIMES} {PLACE} copyKind@4:B bytes@8:Q places@44:4I correlation@60:I")
SET = fields(f"{TIMES} {PLACE} value@4:I bytes@8:Q correlation@44:I memoryKind@50:H node@64:Q graph@72:I")
CALL = fields("cbid@4:I start@8:Q end@16:Q pid@24:I tid@28:I correlation@32:I result@36:I")
SYNC = fields("type@4:I start@8:Q end@16:Q correlation@24:I context@28:I stream@32:I event@36:I")
OVERHEAD = fields("overheadKind@4:I objectKind@8:I object@12:3I start@24:Q end@32:Q correlation@40:I")
EXTERNAL = fields("externalKind@4:I id@8:Q correlation@16:I")
DEVICE = fields("memory@16:Q sms@44:I major@104:I minor@108:I device@112:I uuid@120:16s name@136:Q")
CONTEXT = fields("context@4:I device@8:I")
NAME = fields("objectKind@4:I object@8:3I name@24:Q")
MEMORY = fields(
    "operation@4:I memoryKind@8:I correlation@12:I address@16:Q bytes@24:Q time@32:Q device@52:I context@56:I"
    " stream@60:I name@64:Q async@72:I"
)
EVENT = fields("correlation@4:I context@8:I stream@12:I event@16:I")
MIGRATION = fields(f"{TIMES} counterKind@4:I value@8:Q address@32:Q src@40:I dst@44:I stream@48:I")
GRAPH = fields("correlation@4:I start@8:Q end@16:Q device@24:I graph@28:I context@32:I stream@36:I")
TIMED = {1: COPY, 2: SET, 3: KERNEL, 4: CALL, 10: KERNEL, 17: OVERHEAD, 22: PEER_COPY, 25: MIGRATION, 38: SYNC}
KINDS = {**TIMED, 8: DEVICE, 9: CONTEXT, 11: NAME, 36: EVENT, 39: EXTERNAL, 49: MEMORY, 51: GRAPH}


def record(kind: int, layout: dict[str, tuple[int, str]], **values: Any) -> bytes:
    data = bytearray(RECORD_BYTES)
    struct.pack_into("<I", data, 0, kind)
    for name, value in values.items():
        offset, form = layout[name]
        struct.pack_into("<" + form, data, offset, *(value if isinstance(value, tuple) else (value,)))
    return bytes(data)


def read(data: bytes, version: int = NEWEST, room: int | None = None) -> tuple[int, np.void]:
    assert lib.pln_setup() == 0
    activity = ffi.new("struct pln_activity *")
    result = lib.pln_cupti_read(ffi.from_buffer(data), len(data) if room is None else room, version, activity)
    return result, np.frombuffer(bytes(ffi.buffer(activity)), ACTIVITY)[0]


def made(data: bytes, version: int = NEWEST) -> np.void:
    result, activity = read(data, version)
    assert result == lib.PLN_CUPTI_MADE
    assert activity["kind"] == CONSTANTS["PLN_ACTIVITY"]
    return activity


def raw_text(string_id: int) -> bytes:
    fd = lib.pln_region_fd()
    offset = int(np.frombuffer(os.pread(fd, REGION.itemsize, 0), REGION)[0]["strings_offset"]) + int(string_id) * 8
    (length,) = struct.unpack("<I", os.pread(fd, 4, offset))
    return os.pread(fd, length, offset + 8)


def attributes(activity: np.void) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(raw_text(activity["attributes"]))
    return found


def pointer(text: bytes) -> tuple[Any, int]:
    kept = ffi.new("char[]", text)
    return kept, int(ffi.cast("uintptr_t", kept))


@pytest.mark.parametrize("version", [18, 20, 26, 28, 130001, 130500, 140000])
def test_a_kernel_keeps_its_times_place_name_and_launch_configuration(version: int) -> None:
    kept, name = pointer(b"_Z4gemmPfS_i")
    data = record(
        10,
        KERNEL,
        start=1009,
        end=2003,
        registers=37,
        device=3,
        context=5,
        stream=7,
        grid=(11, 13, 17),
        block=(19, 23, 29),
        static=31,
        dynamic=41,
        local=43,
        correlation=0xFFFFFFFE,
        name=name,
        node=2**40 + 1,
        graph=47,
        cluster=(2, 1, 1),
    )
    activity = made(data, version)
    del kept
    assert (activity["start_ns"], activity["end_ns"], activity["activity"]) == (1009, 2003, 10)
    assert (activity["device"], activity["context"], activity["stream"]) == (3, 5, 7)
    assert activity["correlation"] == 0xFFFFFFFE
    assert raw_text(activity["name"]) == b"_Z4gemmPfS_i"
    assert attributes(activity) == {
        "registers per thread": 37,
        "shared memory": 72,
        "grid": [11, 13, 17],
        "block": [19, 23, 29],
        "local memory per thread": 43,
        "cluster": [2, 1, 1],
        "graph id": 47,
        "graph node id": 2**40 + 1,
    }


def test_equal_launch_configurations_are_one_string_and_others_are_not() -> None:
    first, second, third = (made(record(10, KERNEL, start=1, end=2, grid=(x, 1, 1)))["attributes"] for x in (1, 1, 2))
    assert first == second != third


def test_a_name_that_is_no_utf8_stays_as_it_is_and_one_that_is_missing_is_said() -> None:
    kept, name = pointer(b"\xff\xfe kernel")
    assert raw_text(made(record(10, KERNEL, start=1, end=2, name=name))["name"]) == ffi.string(kept)
    assert raw_text(made(record(10, KERNEL, start=1, end=2, name=0))["name"]) == b"(a kernel without a name)"


def test_a_name_whose_memory_holds_another_text_later_is_the_later_text() -> None:
    kept, name = pointer(b"first")
    assert raw_text(made(record(10, KERNEL, start=1, end=2, name=name))["name"]) == b"first"
    kept[0:5] = b"other"
    assert raw_text(made(record(10, KERNEL, start=1, end=2, name=name))["name"]) == b"other"


def test_a_copy_says_which_memories_it_is_between() -> None:
    data = record(
        1,
        COPY,
        copyKind=2,
        srcKind=3,
        dstKind=2,
        flags=1,
        bytes=2**33 + 1,
        start=101,
        end=103,
        device=1,
        context=2,
        stream=3,
        correlation=107,
        node=109,
        graph=113,
    )
    activity = made(data)
    assert (activity["detail"], activity["value"], activity["correlation"]) == (2, 2**33 + 1, 107)
    assert (activity["device"], activity["context"], activity["stream"], activity["name"]) == (1, 2, 3, 0)
    assert attributes(activity) == {
        "src kind": "device",
        "dst kind": "pinned",
        "asynchronous": 1,
        "graph id": 113,
        "graph node id": 109,
    }


def test_a_copy_between_devices_names_both() -> None:
    activity = made(record(22, PEER_COPY, copyKind=10, bytes=17, start=1, end=2, places=(0, 1, 3, 2), correlation=19))
    assert (activity["detail"], activity["value"], activity["correlation"]) == (10, 17, 19)
    assert attributes(activity) == {"src device": 0, "src context": 1, "dst device": 3, "dst context": 2}


def test_a_memset_keeps_its_value_and_memory() -> None:
    activity = made(record(2, SET, value=255, bytes=4099, start=1, end=2, stream=7, correlation=11, memoryKind=3))
    assert (activity["value"], activity["correlation"], activity["stream"]) == (4099, 11, 7)
    assert attributes(activity) == {"value": 255, "memory kind": "device"}


@pytest.mark.parametrize("kind", [4, 5, 48])
def test_calls_that_come_as_records_are_read_too(kind: int) -> None:
    activity = made(record(kind, CALL, cbid=211, start=3, end=5, pid=7, tid=9, correlation=11, result=2))
    assert (activity["activity"], activity["value"], activity["detail"]) == (kind, 211, 2)
    assert (activity["start_ns"], activity["end_ns"], activity["correlation"]) == (3, 5, 11)
    assert attributes(activity) == {"pid": 7, "tid": 9}


def test_a_synchronization_keeps_its_type_and_event() -> None:
    activity = made(record(38, SYNC, type=3, start=5, end=7, correlation=11, context=1, stream=13, event=17))
    assert (activity["detail"], activity["value"], activity["correlation"]) == (3, 17, 11)
    assert (activity["context"], activity["stream"], activity["device"]) == (1, 13, 0xFFFF)


def test_overhead_has_a_correlation_from_cuda_12_3_on() -> None:
    data = record(17, OVERHEAD, overheadKind=65536, objectKind=5, object=(1, 2, 7), start=3, end=5, correlation=13)
    assert [made(data, version)["correlation"] for version in (18, 20, 21, NEWEST)] == [0, 0, 13, 13]
    activity = made(data)
    assert (activity["detail"], activity["start_ns"], activity["end_ns"]) == (65536, 3, 5)
    assert (activity["device"], activity["context"], activity["stream"]) == (1, 2, 7)
    of_thread = record(17, OVERHEAD, objectKind=2, object=(101, 103, 0), start=3, end=5)
    assert attributes(made(of_thread)) == {"pid": 101, "tid": 103}


def test_an_external_correlation_keeps_both_numbers() -> None:
    activity = made(record(39, EXTERNAL, externalKind=3, id=2**50 + 7, correlation=19))
    assert (activity["detail"], activity["value"], activity["correlation"]) == (3, 2**50 + 7, 19)
    assert (activity["start_ns"], activity["end_ns"]) == (0, 0)


def test_a_device_says_what_it_is() -> None:
    kept, name = pointer(b"Fake GPU")
    uuid = bytes(range(16))
    data = record(8, DEVICE, memory=2**37, sms=132, major=9, minor=1, device=5, uuid=uuid, name=name)
    activity = made(data)
    assert (activity["device"], raw_text(activity["name"])) == (5, ffi.string(kept))
    assert attributes(activity) == {
        "totalGlobalMem": 2**37,
        "computeMajor": 9,
        "computeMinor": 1,
        "numSms": 132,
        "uuid": "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f",
    }


def test_contexts_names_events_and_graphs_say_where_they_belong() -> None:
    kept, name = pointer(b"copies")
    activity = made(record(9, CONTEXT, context=3, device=2))
    assert (activity["context"], activity["device"]) == (3, 2)
    activity = made(record(11, NAME, objectKind=5, object=(2, 3, 7), name=name))
    assert (activity["detail"], activity["device"], activity["context"], activity["stream"]) == (5, 2, 3, 7)
    assert raw_text(activity["name"]) == ffi.string(kept)
    activity = made(record(36, EVENT, correlation=5, context=3, stream=7, event=11))
    assert (activity["correlation"], activity["stream"], activity["value"]) == (5, 7, 11)
    activity = made(record(51, GRAPH, correlation=5, start=1, end=2, device=2, graph=13, context=3, stream=7))
    assert (activity["correlation"], activity["value"], activity["device"], activity["stream"]) == (5, 13, 2, 7)


def test_an_allocation_keeps_its_address() -> None:
    data = record(
        49,
        MEMORY,
        operation=1,
        memoryKind=3,
        correlation=5,
        address=2**46 + 512,
        bytes=4096,
        time=77,
        device=1,
        context=2,
        stream=7,
        **{"async": 1},
    )
    activity = made(data)
    assert (activity["detail"], activity["value"], activity["correlation"], activity["device"]) == (1, 4096, 5, 1)
    assert (activity["start_ns"], activity["end_ns"]) == (77, 77)
    assert attributes(activity) == {"address": 2**46 + 512, "memory kind": "device", "asynchronous": 1}


def test_a_migration_of_unified_memory_says_between_which_devices() -> None:
    data = record(25, MIGRATION, counterKind=1, value=65536, start=1, end=2, address=2**46, src=0xFFFFFFFF, dst=1)
    activity = made(data)
    assert (activity["detail"], activity["value"], activity["device"]) == (1, 65536, 1)
    assert attributes(activity) == {"address": 2**46, "src device": 0xFFFFFFFF, "dst device": 1}


@pytest.mark.parametrize("kind", [6, 7, 12, 50, 52, 63, 255, 256, 2**31, 2**32 - 1])
def test_kinds_that_nobody_knows_are_said_to_be_unknown(kind: int) -> None:
    assert read(record(kind, {}))[0] == lib.PLN_CUPTI_UNKNOWN


@pytest.mark.parametrize("kind", TIMED)
def test_a_record_without_times_is_told_from_one_that_took_no_time(kind: int) -> None:
    assert read(record(kind, TIMED[kind], start=0, end=0))[0] == lib.PLN_CUPTI_UNTIMED
    assert made(record(kind, TIMED[kind], start=5, end=5))["end_ns"] == 5


@pytest.mark.parametrize(
    ("start", "end", "expected", "flags"),
    [
        (7, 5, (7, 7), 0),
        (2**64 - 1, 1, (2**64 - 1, 2**64 - 1), 0),
        (0, 5, (5, 5), 0),
        (7, 0, (7, 7), CONSTANTS["PLN_UNFINISHED"]),
    ],
)
def test_odd_times_become_a_moment(start: int, end: int, expected: tuple[int, int], flags: int) -> None:
    activity = made(record(10, KERNEL, start=start, end=end))
    assert ((activity["start_ns"], activity["end_ns"]), activity["flags"]) == (expected, flags)


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_that_is_cut_short_is_not_read_beyond_its_end(kind: int) -> None:
    layout = KINDS[kind]
    size = max(offset + struct.calcsize("<" + form) for offset, form in layout.values())
    values = {"time" if "time" in layout else "start": 5} if {"time", "start"} & layout.keys() else {}
    data = record(kind, layout, **values)
    assert read(data)[0] == lib.PLN_CUPTI_MADE
    assert {read(data, room=room)[0] for room in range(size)} == {lib.PLN_CUPTI_SHORT}


@given(strategies.integers(0, 60), strategies.binary(min_size=256, max_size=256), strategies.integers(0, 256))
def test_no_bytes_upset_the_reader(kind: int, noise: bytes, room: int) -> None:
    data = bytearray(noise)
    struct.pack_into("<I", data, 0, kind)
    for offset in (24, 64, 104, 136):  # names are addresses, which are CUPTI's and not checked
        struct.pack_into("<Q", data, offset, 0)
    result, activity = read(bytes(data), room=room)
    if result == lib.PLN_CUPTI_MADE:
        assert activity["start_ns"] <= activity["end_ns"]
        assert activity["attributes"] == 0 or attributes(activity)


def mapped(pairs: list[tuple[int, int]], time: int) -> int:
    array = ffi.new("struct pln_clock_pair[]", len(pairs))
    for i, (cupti, monotonic) in enumerate(pairs):
        array[i].cupti_ns, array[i].monotonic_ns = cupti, monotonic
    return int(lib.pln_clock_map(array, len(pairs), time))


@given(strategies.integers(0, 2**62), strategies.integers(0, 2**62), strategies.integers(0, 2**40))
def test_a_clock_of_one_pair_is_shifted(cupti: int, monotonic: int, later: int) -> None:
    assert mapped([(cupti, monotonic)], cupti + later) == monotonic + later


@given(
    strategies.lists(strategies.tuples(strategies.integers(1, 2**36), strategies.integers(1, 2**36)), min_size=2),
    strategies.data(),
)
@example([(1, 1), (2**36, 2**36)], None)
def test_a_clock_goes_through_its_pairs_and_never_back_between_them(steps: list[tuple[int, int]], data: Any) -> None:
    pairs = [(2**60, 2**50)]
    for cupti, monotonic in steps:
        pairs.append((pairs[-1][0] + cupti, pairs[-1][1] + monotonic))
    assert [mapped(pairs, cupti) for cupti, _ in pairs] == [monotonic for _, monotonic in pairs]
    if data is None:
        return
    times = sorted(data.draw(strategies.lists(strategies.integers(pairs[0][0], pairs[-1][0]), min_size=2)))
    found = [mapped(pairs, time) for time in times]
    assert found == sorted(found)
    for time, ours in zip(times, found):
        (a, at_a), (b, at_b) = next((p, q) for p, q in itertools.pairwise(pairs) if p[0] <= time <= q[0])
        assert abs(ours - (at_a + (time - a) * (at_b - at_a) / (b - a))) <= 2


def test_a_clock_that_was_set_back_counts_as_it_was_last() -> None:
    pairs = [(1000, 100), (2000, 1100), (500, 1200), (1500, 2200)]
    assert mapped(pairs, 1000) == 1700
