"""Optional columns and labels: absent where a table says nothing, kept where it does, refused where damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pillion._arrow import from_arrow, to_arrow
from pillion._capture import Capture, open_capture, save_capture
from pillion._errors import CaptureError
from pillion._tables import OPTIONAL, SCHEMAS, Labels, check_references, column, label_column, length


def test_a_column_that_a_table_lacks_is_its_default(training: Capture) -> None:
    events = training.columns["events"]
    assert not OPTIONAL["events"].keys() & events.keys()
    for name, default in OPTIONAL["events"].items():
        values = column("events", events, name)
        assert [values[row] for row in range(length(events))] == [default] * length(events)
    assert column("events", events, "category").isin("user_annotation").all()
    assert column("events", events, "pid") is events["pid"]


def test_optional_columns_come_back(training: Capture, tmp_path: Path) -> None:
    events = training.columns["events"]
    count = length(events)
    events["category"] = label_column(["cpu_op", "user_annotation", "cpu_op", "overhead"])
    for name in OPTIONAL["events"].keys() - {"category"}:
        events[name] = np.arange(count).astype(SCHEMAS["events"][name]) % 2
    save_capture(training, tmp_path / "copy")
    again = open_capture(tmp_path / "copy").columns["events"]
    assert [again["category"][row] for row in range(count)] == ["cpu_op", "user_annotation", "cpu_op", "overhead"]
    for name in OPTIONAL["events"].keys() - {"category"}:
        assert again[name].dtype == np.dtype(SCHEMAS["events"][name])
        assert again[name].tolist() == [0, 1, 0, 1]


def test_labels_know_their_rows() -> None:
    labels = label_column(["b", "a", "b"])
    assert labels.texts == ("b", "a")
    assert labels.isin("b", "c").tolist() == [True, False, True]
    assert [labels.take(np.array([2, 1]))[row] for row in range(2)] == ["b", "a"]
    assert len(labels) == 3


def activities(kind: pa.Array) -> pa.Table:
    columns = {name: pa.array([0] * len(kind), pa.from_numpy_dtype(dtype)) for name, dtype in numeric("activities")}
    return pa.table({"kind": kind, **columns})


def numeric(table: str) -> list[tuple[str, np.dtype[np.generic]]]:
    return [(name, np.dtype(kind)) for name, kind in SCHEMAS[table].items() if kind != "label"]


@pytest.mark.parametrize("kind", [pa.array(["kernel", "sync"]), pa.array(["kernel", "sync"]).dictionary_encode()])
def test_labels_are_read_from_plain_text_too(kind: pa.Array) -> None:
    labels = from_arrow("activities", activities(kind))["kind"]
    assert [labels[row] for row in range(2)] == ["kernel", "sync"]
    assert to_arrow("activities", from_arrow("activities", activities(kind)))["kind"].to_pylist() == ["kernel", "sync"]


@pytest.mark.parametrize(
    "kind",
    [
        pa.array(["kernel", None]),
        pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([None], pa.string())),
        pa.DictionaryArray.from_arrays(pa.array([0, 7]), pa.array(["kernel"]), safe=False),
        pa.array([[1], [2]]),
    ],
)
def test_damaged_labels_are_refused(kind: pa.Array) -> None:
    with pytest.raises(CaptureError, match="column kind"):
        from_arrow("activities", activities(kind))


@pytest.mark.parametrize("name", ["overload", "shapes", "stack", "attributes"])
def test_optional_references_are_checked(training: Capture, name: str) -> None:
    training.columns["events"][name] = np.array([0, 0, 99, 0], SCHEMAS["events"][name])
    with pytest.raises(CaptureError, match=f"column {name} points outside"):
        check_references(training.columns)


def test_an_empty_table_has_its_labels() -> None:
    empty = from_arrow("activities", activities(pa.array([], pa.string())))
    assert isinstance(empty["kind"], Labels)
    assert len(column("activities", empty, "launch")) == 0
