"""NVTX's and ITT's events in the tables: domain, category and payload each in their place."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from spool_writer import SpoolWriter

from pillion.merge import merge
from pillion.merge.spool import parse_spool
from pillion_probes.layout import CONSTANTS

NVTX, ITT, RECORD_FUNCTION = (CONSTANTS[f"PLN_SOURCE_{name}"] for name in ("NVTX", "ITT", "RECORD_FUNCTION"))


def shown(*events: dict[str, Any]) -> list[tuple[str, Any, int]]:
    """Args, attributes and value of events, in the order given."""
    spool = SpoolWriter()
    spool.region(1, 41, 0)
    for seq, event in enumerate(events, start=1):
        spool.record(1, 41, "x", seq, seq, **{"seq": seq, "parent": 0, "depth": 0, "source": NVTX, **event})
    tables = merge(parse_spool(spool.to_bytes()))[0]
    columns, texts = tables["events"], tables["strings"]["text"]
    assert len(set(texts)) == len(texts), "each text once"
    attributes = columns["attributes"] if "attributes" in columns else [0] * len(events)
    return [
        (texts[args], json.loads(texts[said]) if said else None, int(value))
        for args, said, value in zip(columns["args"], attributes, columns["value"])
    ]


def double(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def test_a_category_is_shown_by_its_name_or_else_by_its_number() -> None:
    assert shown(
        {"args": "domain"},
        {"args": "domain\x1fcategory", "scope": 7},
        {"args": "domain", "scope": 8, "value": 3},
        {"args": "\x1fcategory", "scope": 7},
        {"scope": 2},
        {"args": "domain\x1fcounter", "scope": 4, "source": ITT, "value": 2**64 - 1},
    ) == [
        ("domain", None, 0),
        ("domain", {"category": "category"}, 0),
        ("domain", {"category": 8}, 3),
        ("", {"category": "category"}, 0),
        ("", {"category": 2}, 0),
        ("domain", {"category": "counter"}, 2**64 - 1),
    ]


def test_a_payload_that_is_no_unsigned_number_is_an_attribute() -> None:
    assert shown(
        {"args": "d\x1f\x1fsigned", "value": 2**64 - 5},
        {"args": "d\x1fc\x1fdouble", "value": double(-0.1), "scope": 1},
        {"args": "d\x1fc\x1fdouble", "value": double(2.5), "scope": 1},
        {"args": "\x1f\x1fdouble", "value": double(math.nan)},
        {"args": "d\x1f\x1fof the future", "value": 5},
    ) == [
        ("d", {"payload": -5}, 0),
        ("d", {"category": "c", "payload": -0.1}, 0),
        ("d", {"category": "c", "payload": 2.5}, 0),
        ("", {"payload": "nan"}, 0),
        ("d", None, 5),
    ]


def test_the_args_of_other_ranges_stay_as_they_are() -> None:
    assert shown(
        {"args": "a\x1fb\x1fdouble", "source": RECORD_FUNCTION, "value": 7, "scope": 3},
        {"args": "a\x1fb", "source": NVTX},
    ) == [("a\x1fb\x1fdouble", None, 7), ("a", {"category": "b"}, 0)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "one", "two", "two words"]),
            st.sampled_from(["", "c", "category"]),
            st.one_of(st.integers(-(2**63), -1), st.integers(0, 2**64 - 1), st.floats(allow_nan=False)),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_every_event_keeps_what_it_says(events: list[tuple[str, str, float, int]]) -> None:
    records = []
    for domain, category, payload, scope in events:
        kind = "double" if isinstance(payload, float) else "signed" if payload < 0 else ""
        value = double(payload) if isinstance(payload, float) else payload % 2**64
        args = "\x1f".join([domain, category, kind]).rstrip("\x1f")
        records.append({"args": args, "value": value, "scope": scope})
    for (domain, category, payload, scope), (args, attributes, value) in zip(events, shown(*records)):
        said = attributes or {}
        assert args == domain
        assert said.get("category", 0) == (category or scope)
        told = said.get("payload", value)
        assert (float(told) if isinstance(payload, float) else told) == payload
