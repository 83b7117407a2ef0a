"""What a range's record says, and which ranges there are."""

from __future__ import annotations

import asyncio
import gc
import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillion._native import ffi, lib
from pillion._range import _Range
from pillion_probes import CONSTANTS

COUNT = 10_007


class _Subclass(_Range):
    __slots__ = ()


def test_every_range_is_delivered_once(recording: Any) -> None:
    for _ in range(COUNT):
        with _Range("step"):
            pass
    recording.end()
    steps = recording.spool.records()
    assert len(steps) == COUNT
    assert len(set(steps["seq"])) == COUNT
    assert recording.losses() == {}


def test_a_range_has_name_args_thread_and_times(recording: Any) -> None:
    with _Range("forward", "layer 3"):
        pass
    recording.end()
    (record,) = recording.spool.records()
    assert recording.spool.text(record["name"]) == "forward"
    assert recording.spool.text(record["args"]) == "layer 3"
    assert record["tid"] == record["end_tid"] == threading.get_native_id()
    assert 0 < record["start_ns"] <= record["end_ns"]
    assert record["flags"] == 0
    assert record["source"] == CONSTANTS["PLN_SOURCE_RECORD_FUNCTION"]


def test_nested_ranges_know_their_parents(recording: Any) -> None:
    depth = 1009  # beyond what a thread publishes
    with ExitStack() as stack:
        for _ in range(depth):
            stack.enter_context(_Range("level"))
    recording.end()
    levels = sorted(recording.spool.records(), key=lambda record: record["depth"])
    assert [level["depth"] for level in levels] == list(range(depth))
    assert [level["parent"] for level in levels] == [0, *(level["seq"] for level in levels[:-1])]


def test_a_thread_tells_its_name_once_a_session(recording: Any) -> None:
    for _ in range(3):
        with _Range("step"):
            pass
    recording.end()
    (thread,) = recording.spool.records("PLN_THREAD")
    with open(f"/proc/self/task/{threading.get_native_id()}/comm") as comm:
        assert recording.spool.text(thread["name"]) == comm.read().rstrip("\n")


def test_a_mark_has_its_value(recording: Any) -> None:
    with _Range("step"):
        lib.pln_mark(lib.pln_intern(b"loss", 4), 0, lib.PLN_SOURCE_C, 1_000_003, 0)
    recording.end()
    (mark,) = recording.spool.records("PLN_MARK")
    (step,) = recording.spool.records()
    assert (mark["value"], mark["parent"], mark["depth"]) == (1_000_003, step["seq"], 1)
    assert mark["start_ns"] == mark["end_ns"]


def test_ranges_may_end_in_any_order(recording: Any) -> None:
    first, second, third = _Range("first"), _Range("second"), _Range("third")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    third.__enter__()
    second.__exit__(None, None, None)
    third.__exit__(None, None, None)
    with _Range("after"):
        pass
    recording.end()
    records = {recording.spool.text(record["name"]): record for record in recording.spool.records()}
    assert records["second"]["parent"] == records["first"]["seq"]
    assert records["third"]["parent"] == records["second"]["seq"]
    assert (records["after"]["parent"], records["after"]["depth"]) == (0, 0)


def test_a_range_may_end_on_another_thread(recording: Any) -> None:
    moved = _Range("moved")
    thread = threading.Thread(target=moved.__enter__)
    thread.start()
    began_tid = thread.native_id
    thread.join()
    moved.__exit__(None, None, None)
    recording.end()
    (record,) = recording.spool.records()
    assert (record["tid"], record["end_tid"]) == (began_tid, threading.get_native_id())
    assert record["flags"] == CONSTANTS["PLN_ASYNC"]


def test_a_range_that_ended_elsewhere_is_nobodys_parent(recording: Any) -> None:
    with _Range("outer"):
        moved = _Range("moved").__enter__()
        thread = threading.Thread(target=moved.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
        with _Range("inner"):
            pass
    recording.end()
    (outer,), (inner,) = recording.spool.named("outer"), recording.spool.named("inner")
    assert (inner["parent"], inner["depth"]) == (outer["seq"], 1)


def test_tasks_that_interleave_lose_nothing(recording: Any) -> None:
    async def task() -> None:
        for _ in range(101):
            with _Range("task"):
                await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(task() for _ in range(7)))

    asyncio.run(main())
    recording.end()
    assert len(recording.spool.records()) == 7 * 101


def test_a_dropped_generator_ends_its_range(recording: Any) -> None:
    def generate() -> Iterator[int]:
        with _Range("generator"):
            yield 1

    generator = generate()
    next(generator)
    del generator
    gc.collect()
    recording.end()
    (record,) = recording.spool.records()
    assert record["flags"] == 0


def test_an_open_range_is_reported_when_the_session_ends(recording: Any) -> None:
    with _Range("outer"), _Range("inner"):
        recording.end()
    outer, inner = recording.spool.records()
    assert outer["flags"] == inner["flags"] == CONSTANTS["PLN_UNFINISHED"]
    assert (inner["parent"], inner["depth"]) == (outer["seq"], 1)
    assert outer["end_ns"] >= outer["start_ns"]


def test_a_session_begins_with_what_begins_in_it(collect: Callable[..., Any]) -> None:
    collector = collect()
    with _Range("before"):
        collector.begin()
        with _Range("inside"):
            pass
    collector.end()
    (record,) = collector.spool.records()
    assert collector.spool.text(record["name"]) == "inside"
    assert record["parent"] == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("größer → 大", "größer → 大"),
        ("lone \udc80 surrogate", "lone \\udc80 surrogate"),
        ("é" * CONSTANTS["PLN_NAME_MAX"], "é" * (CONSTANTS["PLN_NAME_MAX"] // 2)),
        ("x" + "é" * CONSTANTS["PLN_NAME_MAX"], "x" + "é" * (CONSTANTS["PLN_NAME_MAX"] // 2 - 1)),
        ("with \0 inside", "with \0 inside"),
        ("", ""),
    ],
    ids=["unicode", "surrogate", "cut", "cut at a character", "nul", "empty"],
)
def test_names_arrive_as_utf8(recording: Any, name: str, expected: str) -> None:
    with _Range(name):
        pass
    recording.end()
    (record,) = recording.spool.records()
    assert recording.spool.text(record["name"]) == expected


def test_an_equal_name_has_an_equal_id() -> None:
    texts = [b"name %d" % i for i in range(20_011)]
    ids = [lib.pln_intern(text, len(text)) for text in texts]
    assert len(set(ids)) == len(texts)
    assert ids == [lib.pln_intern(text, len(text)) for text in texts]


@given(st.lists(st.binary(max_size=40).map(lambda text: text.replace(b"\0", b"x")), min_size=1), st.integers(0, 7))
def test_an_address_is_asked_again_and_again_whatever_text_it_holds(texts: list[bytes], offset: int) -> None:
    place = ffi.new("char[]", 64)
    for text in texts:
        for held in (text, text[:-1], text + b"y", text):
            ffi.memmove(place + offset, held + b"\0", len(held) + 1)
            assert lib.pln_intern_cached(place + offset) == lib.pln_intern(held, len(held))


@pytest.mark.parametrize("arguments", [(3,), (None,), (b"x",), ("x", 3)])
def test_wrong_types_are_runtime_errors(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(RuntimeError, match="must be a str"):
        _Range(*arguments)


def test_an_exit_needs_an_enter() -> None:
    with pytest.raises(AssertionError):
        _Range("x").__exit__(None, None, None)


def test_an_object_serves_again_but_not_within_itself(recording: Any) -> None:
    again = _Subclass("again", args="a")
    with again as entered, pytest.raises(RuntimeError, match="twice"):
        again.__enter__()
    assert (entered, again.name, again.args) == (again, "again", "a")
    with again:
        pass
    recording.end()
    assert len(recording.spool.records()) == 2


def test_an_exception_passes_and_ends_the_range(recording: Any) -> None:
    with pytest.raises(KeyError), _Range("failing"):
        raise KeyError
    recording.end()
    assert len(recording.spool.records()) == 1


def test_a_process_can_record_itself(alone: Callable[..., Any]) -> None:
    code = f"""
spool_fd = os.memfd_create("spool")
sink, losses = ffi.new("struct pln_sink *"), ffi.new("struct pln_loss[8]")
assert lib.pln_self_stop(sink, losses, 8) < 0
assert lib.pln_self_start(spool_fd) == 0
assert lib.pln_self_start(spool_fd) < 0
for _ in range({COUNT}):
    with _Range("step"):
        pass
lost = sum(losses[i].count for i in range(lib.pln_self_stop(sink, losses, 8)))
thread_record = 1
print((sink.records - thread_record + lost, sink.bytes == os.fstat(spool_fd).st_size, sink.error))
"""
    assert alone(code) == (COUNT, True, 0)


def test_an_open_range_is_published(recording: Any) -> None:
    with _Range("found"):
        rings = recording.rings()
        index = next(i for i, ring in enumerate(rings) if ring["tid"] == threading.get_native_id())
        header = recording.header()
        open_offset = header["rings_offset"] + index * header["ring_stride"] + CONSTANTS["PLN_OPEN_OFFSET"]
        _, name, seq = struct.unpack("<QII", os.pread(recording.fd, 16, open_offset))
    assert rings[index]["depth"] == 1
    assert (name, seq) == (lib.pln_intern(b"found", 5), rings[index]["seq"])
