"""The spool is untrusted: what is whole is read, what is not is counted, nothing else happens."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spool_writer import SpoolWriter, gpu_spool, training_spool

from pillion._errors import CaptureError, PillionError
from pillion._tables import OPTIONAL, SCHEMAS, check_references, length
from pillion.merge import merge
from pillion.merge.spool import Dropped, parse_spool, parse_string_log, read_spool
from pillion_probes.layout import CONSTANTS, HEADER_PATH

TRAINING = training_spool()
GPU = gpu_spool().to_bytes()


def test_every_constant_of_the_header_is_known() -> None:
    """However it is broken into lines."""
    assert set(re.findall(r"#define (PLN_\w+)\s", HEADER_PATH.read_text())) == set(CONSTANTS)


def test_every_block_is_read() -> None:
    spool = parse_spool(TRAINING)
    assert [len(block.records) for block in spool.records] == [5]
    assert [len(block) for block in spool.samples] == [4]
    assert len(spool.objects["stack"]) == 2
    assert spool.dropped == []


def test_an_empty_file_is_an_empty_spool(tmp_path: Path) -> None:
    (tmp_path / "spool").touch()
    assert read_spool(tmp_path / "spool").records == []


def test_a_truncated_block_is_dropped_and_its_bytes_are_counted() -> None:
    whole = len(SpoolWriter().to_bytes())
    writer = SpoolWriter()
    writer.block("JSON", b"[]")
    data = bytes(writer.data) + TRAINING[:-10]
    spool = parse_spool(data)
    assert len(spool.samples) == 1
    (dropped,) = spool.dropped
    assert dropped.kind == "spool_truncated"
    assert whole < dropped.lost < len(data)


def test_a_damaged_header_ends_the_reading() -> None:
    writer = SpoolWriter()
    writer.block("JSON", b"[]")
    place = len(writer.data)
    writer.block("JSON", b"[]")
    writer.data[place] ^= 1
    assert parse_spool(bytes(writer.data)).dropped == [Dropped("spool_truncated", 66, "byte 66 of the spool")]


@pytest.mark.parametrize("payload", [b"{", b'{"type":"end"}', b"[" * 100_000, b"\xff", b""])
def test_a_block_that_is_no_json_array_is_counted(payload: bytes) -> None:
    writer = SpoolWriter()
    writer.block("JSON", payload)
    writer.block("JSON", b'[{"type":"end"}]')
    spool = parse_spool(bytes(writer.data))
    assert [(dropped.kind, dropped.lost) for dropped in spool.dropped] == [("spool_corrupt", 1)]
    assert "byte 0 of" in spool.dropped[0].place
    assert spool.objects["end"]


def test_objects_without_type_or_key_are_counted() -> None:
    objects = [1, {}, {"type": 5}, {"type": "stack", "id": [1]}, {"type": "invented here"}]
    writer = SpoolWriter()
    writer.block("JSON", json.dumps(objects).encode())
    assert [dropped.lost for dropped in parse_spool(bytes(writer.data)).dropped] == [4]


def test_a_later_object_replaces_an_earlier_one() -> None:
    writer = SpoolWriter()
    for count in (3, 5):
        writer.block("JSON", json.dumps([{"type": "loss", "kind": "x", "pid": 1, "tid": 2, "count": count}]).encode())
    assert [item["count"] for item in parse_spool(bytes(writer.data)).objects["loss"].values()] == [5]


def log_of(*stretches: tuple[int, bytes]) -> tuple[dict[int, str], list[Dropped]]:
    """What the string log of region 3 holds after blocks with these offsets and bytes."""
    writer = SpoolWriter()
    for offset, payload in stretches:
        writer.block("STRINGS", payload, region=3, offset=offset)
    return parse_string_log(parse_spool(bytes(writer.data)).string_logs[3], 3)


FORWARD = b"\x07\0\0\0\0\0\0\0forward\0"


def test_a_string_log_arrives_in_stretches() -> None:
    assert log_of((0, bytes(8)), (8, FORWARD[:5]), (13, FORWARD[5:])) == ({0: "", 1: "forward"}, [])


def test_a_string_log_may_have_gaps() -> None:
    assert log_of((1 << 40, FORWARD), (80, FORWARD)) == ({(1 << 40) // 8: "forward", 10: "forward"}, [])


def test_a_string_longer_than_its_stretch_is_counted() -> None:
    assert log_of((0, bytes(8) + b"\xff" * 8), (64, FORWARD)) == (
        {0: "", 8: "forward"},
        [Dropped("spool_corrupt", 1, "byte 8 of the string log of region 3")],
    )


def test_another_file_is_refused() -> None:
    with pytest.raises(CaptureError, match="does not begin with a block"):
        parse_spool(b"x" * 100)


def test_another_version_is_refused() -> None:
    data = bytearray(TRAINING)
    data[6] = 99
    with pytest.raises(CaptureError, match="version 99, this Pillion reads version 1"):
        parse_spool(bytes(data))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"):
        read_spool(tmp_path / "none")


@settings(max_examples=400, deadline=None)
@given(
    whole=st.sampled_from([TRAINING, GPU]),
    cut=st.floats(0, 1),
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=12),
)
def test_damage_never_breaks_the_reader(whole: bytes, cut: float, flips: list[tuple[float, int]]) -> None:
    data = bytearray(whole)
    for place, bits in flips:
        data[int(place * len(data))] ^= bits
    try:
        tables, _ = merge(parse_spool(bytes(data[: round(cut * len(data))])))
    except PillionError:
        return
    check_references(tables)
    for name, schema in SCHEMAS.items():
        assert set(schema) - set(OPTIONAL.get(name, ())) <= set(tables[name]) <= set(schema)
        assert {len(column) for column in tables[name].values()} == {length(tables[name])}


_TYPES = ("meta", "process", "thread", "region", "frame", "stack", "loss", "end")
_KEYS = ("pid", "tid", "id", "region", "kind", "count", "frames", "line", "name", "cmdline", "start_ns", "cost", "uid")
_VALUES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text() | st.lists(st.integers(-1, 9))
_OBJECTS = st.tuples(st.sampled_from(_TYPES), st.dictionaries(st.sampled_from(_KEYS), _VALUES))


@settings(max_examples=200, deadline=None)
@given(st.lists(_OBJECTS.map(lambda made: {"type": made[0], **made[1]})))
def test_objects_with_any_values_never_break_the_reader(objects: list[dict[str, object]]) -> None:
    writer = SpoolWriter()
    writer.block("JSON", json.dumps(objects).encode())
    tables, meta = merge(parse_spool(bytes(writer.data)))
    check_references(tables)
    assert isinstance(meta["start_ns"], int)
    assert np.all(tables["losses"]["count"] >= 0)
