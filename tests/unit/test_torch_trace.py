"""Reading torch's result: what it leaves in memory, and what torch itself cannot read."""

from __future__ import annotations

import weakref

import pytest

from pillion.torch_engine import trace


class _Event:
    """Stands for one of torch's, of which hundreds of megabytes come at once."""


def test_events_are_read_in_order_and_gone_once_their_part_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_PART", 7)
    events = [_Event() for _ in range(23)]
    references = [weakref.ref(event) for event in events]
    seen, alive = [], []
    for part in trace._consumed(events):
        seen += [references.index(weakref.ref(event)) for event in part]
        alive.append(sum(reference() is not None for reference in references))
    assert seen == list(range(23))
    assert alive == [23, 16, 9, 2]


class _Named:
    """An event that has bytes for texts, as torch's have."""

    def __init__(self, name: bytes, *stack: bytes) -> None:
        self._name = name
        self._stack = stack

    def name(self) -> str:
        return self._name.decode()

    def stack(self) -> list[str]:
        return [entry.decode() for entry in self._stack]


def test_a_name_or_a_stack_that_is_no_utf8_is_shown_as_far_as_it_is() -> None:
    events = [_Named(b"aten::mm", b"a.py(1): f", b"b.py(2): g"), _Named(b"cut\xa0off", b"a.py(1): f", b"b\xa0")]
    reader = trace._Reader(events)
    assert reader.decoded("name") == ["aten::mm", "cut\ufffdoff"]
    assert reader.decoded("stack", trace._only) == [["a.py(1): f", "b.py(2): g"], ["b\ufffd"]]
