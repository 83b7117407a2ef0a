"""The native reader of Chrome's JSON against Python's own, on valid, cut and damaged bytes."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion._errors import CaptureError
from pillion._native import lib
from pillion.importers import trace_json
from pillion.importers.losses import Losses
from pillion.importers.trace_json import EVENT_DTYPE, TraceJson

_I64 = st.integers(-(2**63), 2**63 - 1)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_JSON = st.recursive(
    st.none() | st.booleans() | _I64 | st.floats(allow_nan=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)
_EVENTS = st.fixed_dictionaries(
    {"ph": st.sampled_from("XiMBE"), "name": _TEXT, "pid": _I64, "tid": _I64},
    optional={
        "cat": st.sampled_from(["cpu_op", "kernel", "user_annotation", "été"]),
        "ts": st.integers(-(10**15), 10**15) | st.integers(-(10**18), 10**18).map(lambda ns: ns / 1e3),
        "dur": st.integers(0, 10**12),
        "args": st.dictionaries(_TEXT | st.sampled_from(["External id", "stream", "Input Dims"]), _JSON, max_size=5),
        "other": _JSON,
    },
)


def read(data: bytes) -> tuple[TraceJson, Losses]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_bytes(data)
        losses = Losses()
        return TraceJson(path, losses), losses


def counts(losses: Losses) -> dict[str, int]:
    table = losses.table()
    return dict(zip(table["kind"].tolist(), table["count"].tolist()))


def texts(trace: TraceJson, column: str) -> list[str]:
    labels = column in ("category", "id", "stack")
    return [(trace.labels if labels else trace.strings)[number] for number in trace.column(column).tolist()]


@settings(max_examples=150, deadline=None)
@given(st.lists(_EVENTS, max_size=8), st.sampled_from([None, 1]), st.booleans(), st.booleans(), st.data())
def test_it_reads_what_json_reads(
    events: list[dict[str, Any]], indent: int | None, ascii_only: bool, bare: bool, data: st.DataObject
) -> None:
    whole: Any = events if bare else {"a": [1, {"b": None}], "traceEvents": events, "z": "end"}
    trace, losses = read(json.dumps(whole, indent=indent, ensure_ascii=ascii_only).encode())
    assert counts(losses) == {}
    assert len(trace) == len(events)
    assert trace.members == ({} if bare else {"a": [1, {"b": None}], "z": "end"})
    assert trace.column("pid").tolist() == [event["pid"] for event in events]
    assert trace.column("phase").tolist() == [ord(event["ph"]) for event in events]
    assert texts(trace, "category") == [event.get("cat", "") for event in events]
    for row, event in enumerate(events):
        if event["ph"] == "M":
            continue
        assert trace.strings[trace.column("name")[row]] == event["name"]
        assert bool(trace.column("flags")[row] & lib.PLN_TRACE_NO_START) == ("ts" not in event)
        if isinstance(event.get("ts"), int):
            assert trace.column("start_ns")[row] == event["ts"] * 1000
        elif "ts" in event:  # with a number that has no exact place in a double
            assert abs(trace.column("start_ns")[row] - event["ts"] * 1e3) <= 256
        rest = dict(event.get("args", {}))
        if "other" in event:
            rest["other"] = event["other"]
        attributes = json.loads(trace.strings[trace.column("attributes")[row]] or "{}")
        assert attributes.items() <= rest.items()
        taken = rest.keys() - attributes.keys()
        assert taken <= {"External id", "stream", "Input Dims", "Ev Idx"}


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("1.5", 1_500),
        ("-1.5", -1_500),
        ("-0.001", -1),
        ("4203669604595.407", 4_203_669_604_595_407),
        ('"12.25"', 12_250),
        ("1e3", 1_000_000),
        ("1.0004", 1_000),
        ("1.0005", 1_001),
        ("-1.9995", -2_000),
        ("1682725898237042.123499999", 1_682_725_898_237_042_123),
        ("1682725898237042.99951", 1_682_725_898_237_043_000),
        ("9223372036854775.807", 2**63 - 1),
        ("-9223372036854775.808", -(2**63)),
    ],
)
def test_times_are_exact_to_the_nanosecond(text: str, ns: int) -> None:
    trace, _ = read(f'[{{"ph":"X","ts":{text}}}]'.encode())
    assert trace.column("start_ns").tolist() == [ns]
    assert trace.column("flags").tolist() == [lib.PLN_TRACE_NO_END]


@pytest.mark.parametrize("text", ["9223372036854775808", "1e400", "null", '"soon"', "[1]", '""', "NaN", "-Infinity"])
def test_a_time_that_cannot_be_is_marked(text: str) -> None:
    trace, _ = read(f'[{{"ph":"X","ts":{text},"dur":1}}]'.encode())
    assert trace.column("flags").tolist() == [lib.PLN_TRACE_NO_START]


def test_escapes_are_undone_in_names() -> None:
    name = 'a"b\\c/\n\t€😀\x01'
    trace, _ = read(json.dumps([{"ph": "X", "name": name, "args": {name: name}}]).encode())
    assert texts(trace, "name") == [name]
    assert json.loads(texts(trace, "attributes")[0]) == {name: name}
    trace, _ = read(b'[{"ph":"X","name":"\\ud83d \\udE00\\/"}]')
    assert texts(trace, "name") == ["\ufffd \ufffd/"]


def test_texts_that_are_no_utf8_are_replaced_and_counted() -> None:
    trace, losses = read(b'[{"ph":"X","name":"a\xff"},{"ph":"X","name":"\xc3\xa9"}]')
    assert texts(trace, "name") == ["a\ufffd", "é"]
    assert counts(losses) == {"not_utf8": 1}


@pytest.mark.parametrize("piece", [2, 7, 64, 1_000])
def test_the_size_of_the_pieces_changes_nothing(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [
        {"ph": "X", "name": f"op {number % 7}", "ts": number, "args": {"External id": number, "n": "x" * number}}
        for number in range(100)
    ]
    data = json.dumps({"traceEvents": events, "after": 1}, indent=1).encode()
    monkeypatch.setattr(trace_json, "_PIECE", piece)
    monkeypatch.setattr(trace_json, "_ROWS", 8)
    trace, losses = read(data)
    assert counts(losses) == {}
    assert trace.column("external_id").tolist() == list(range(100))
    assert trace.members == {"after": 1}


def test_an_item_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_json, "_PIECE", 16)
    monkeypatch.setattr(trace_json, "_ITEM_MAX", 256)
    trace, losses = read(b'[{"ph":"X"},{"name":"' + b"x" * 1_000)
    assert len(trace) == 1
    assert counts(losses)["trace_corrupt"] == 1


def test_every_cut_of_a_trace_is_read_as_far_as_it_goes() -> None:
    data = json.dumps({"k": {"a": [1]}, "traceEvents": [{"ph": "X", "name": "a", "args": {"b": [1]}}] * 3}).encode()
    whole_events = 0
    for cut in range(len(data)):
        whole_events += data[:cut].endswith((b"}},", b"}}]"))
        if whole_events:
            trace, losses = read(data[:cut])
            assert whole_events <= len(trace) <= whole_events + 1
            assert counts(losses) == {"trace_truncated": 1}
        elif not data[:cut].endswith(b"}}"):
            with pytest.raises(CaptureError, match="ends before the first event, at byte"):
                read(data[:cut])


_SPACE = st.sampled_from(["", "", "", " ", "\n    ", " " * 9])
_VALUE = st.sampled_from(["7", '"X"', "12.5", '"a\\"b"', "[1, 2]", '{"ph": 3}'])
_MEMBERS = st.lists(
    st.tuples(st.sampled_from(["ph", "pid", "ts", "cat", "name", "args", "k" * 70]), _VALUE), min_size=1, max_size=4
)


@st.composite
def _object_texts(draw: st.DrawFn) -> list[str]:
    """Objects of nearly the same members, with white space anywhere, some without what JSON wants between members."""
    members, objects = draw(_MEMBERS), []
    for _ in range(draw(st.integers(1, 8))):
        some = members[draw(st.integers(0, 1)) :]
        texts = [f'{draw(_SPACE)}"{key}"{draw(_SPACE)}:{draw(_SPACE)}{value}{draw(_SPACE)}' for key, value in some]
        separator = draw(st.sampled_from([*[","] * 9, "", ",,", ";"]))
        objects.append("{" + separator.join(texts) + draw(_SPACE) + "}")
    return objects


def _content(trace: TraceJson) -> list[tuple[Any, ...]]:
    is_metadata = (trace.column("phase") == ord("M")).tolist()
    rows = zip(*(trace.column(name).tolist() for name in EVENT_DTYPE.names or ()))
    answer = []
    for row, metadata in zip(rows, is_metadata):
        values: dict[str, Any] = dict(zip(EVENT_DTYPE.names or (), row))
        for name in ("name", "attributes", "shapes", "category", "stack", "id"):
            is_label = metadata or name in ("category", "stack", "id")
            values[name] = (trace.labels if is_label else trace.strings)[values[name]]
        for name, flag in (("pid", lib.PLN_TRACE_PID_TEXT), ("tid", lib.PLN_TRACE_TID_TEXT)):
            values[name] = trace.labels[values[name]] if values["flags"] & flag else values[name]
        answer.append(tuple(values.values()))
    return answer


@settings(max_examples=300, deadline=None)
@given(_object_texts())
def test_an_event_is_read_alike_whatever_came_before_it(objects: list[str]) -> None:
    alone = []
    for text in objects:
        try:
            alone += _content(read(f"[{text}]".encode())[0])
        except CaptureError:  # no JSON: the reading ends there
            break
    if alone:
        trace, losses = read(f"[{','.join(objects)}]".encode())
        assert _content(trace) == alone
        assert ("trace_corrupt" in counts(losses)) == (len(alone) < len(objects))


_SEED = json.dumps(
    {
        "schemaVersion": 1,
        "traceEvents": [
            {"ph": "X", "cat": "cpu_op", "name": 'a\\"\u20ac', "pid": 1, "tid": "2", "ts": 1.5, "dur": 2, "args": {}},
            {"ph": "X", "cat": "kernel", "ts": 1, "args": {"stream": 7, "grid": [1, [2], {"a": None}]}},
            {"ph": "M", "name": "process_name", "args": {"name": "python"}},
        ],
    }
).encode()


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(_SEED) - 1), st.integers(0, 255)), max_size=6),
    st.integers(0, len(_SEED)),
    st.integers(1, 200),
)
def test_damage_never_breaks_the_reader(flips: list[tuple[int, int]], cut: int, piece: int) -> None:
    data = bytearray(_SEED)
    for place, value in flips:
        data[place] = value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_json, "_PIECE", piece)
        try:
            trace, _ = read(bytes(data[:cut]))
        except CaptureError:
            return
    is_metadata = trace.column("phase") == ord("M")  # their texts are all labels
    for name in ("name", "attributes", "shapes", "category", "stack", "id"):
        of_strings = name in ("name", "attributes", "shapes")
        for number, metadata in zip(trace.column(name).tolist(), is_metadata.tolist()):
            assert 0 <= number < len(trace.strings if of_strings and not metadata else trace.labels)


@pytest.mark.parametrize(
    "args",
    ['{"a":1 "b":2}', '{"a"}', '{"a":}', '{"a":[1,]}', '{"a":[1}}', '{"a":tru}', '{"a":01}', '{"a":"\\x"}', "{a:1}"],
)
def test_what_is_no_json_ends_the_reading_with_its_place(args: str) -> None:
    before = b'[{"ph":"X"},'
    trace, losses = read(before + b'{"ph":"X","args":' + args.encode() + b"}]")
    assert len(trace) == 1
    assert counts(losses) == {"trace_corrupt": 1}
    assert f"byte {len(before)}" in losses.table()["place"][0]


def test_deep_nesting_neither_recurses_nor_stops_the_reading() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    trace, losses = read(
        b'{"deep":' + deep + b',"traceEvents":[{"ph":"X","args":{"a":' + deep + b',"b":1}},{"ph":"X"}]}'
    )
    assert counts(losses) == {"members": 1}
    assert trace.column("flags").tolist()[0] & lib.PLN_TRACE_TOO_DEEP
    assert texts(trace, "attributes") == ['{"b":1}', ""]


def test_a_long_name_and_a_byte_order_mark_are_read() -> None:
    name = "n" * 3_000_000
    trace, losses = read(b"\xef\xbb\xbf" + json.dumps([{"ph": "X", "name": name}]).encode())
    assert texts(trace, "name") == [name]
    assert counts(losses) == {}


def test_a_damaged_gzip_gives_what_is_before_the_damage() -> None:
    events = [{"ph": "X", "name": f"op {number}", "ts": number} for number in range(50_000)]
    packed = gzip.compress(json.dumps(events).encode())
    trace, losses = read(packed[: len(packed) // 2])
    assert 0 < len(trace) < 50_000
    assert counts(losses)["gzip_damaged"] == 1
    whole, losses = read(packed)
    assert len(whole) == 50_000
    assert counts(losses) == {}


def test_flows_are_left_out_and_counters_counted() -> None:
    trace, losses = read(b'[{"ph":"s","id":1},{"ph":"f","id":1},{"ph":"C","name":"c"},{"ph":"X","name":"a"}]')
    assert (len(trace), trace.flows) == (1, 2)
    assert counts(losses) == {"counters": 1}
