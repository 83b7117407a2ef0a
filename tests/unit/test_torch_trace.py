"""Reading torch's result: what it leaves in memory."""

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
