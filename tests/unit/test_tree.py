"""The tree of ranges as they were opened, some of which end before what they opened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillion.model.tree import nested_parents

CHAIN = 300_007

# Of each row how far back its parent is, when it starts after that, for how long it lasts, whether it is hidden and
# whether it ended on another thread.
ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 9), st.booleans(), st.booleans()), max_size=40
)


def events_of(rows: list[tuple[int, int, int, bool, bool]]) -> dict[str, Any]:
    events: dict[str, Any] = {
        name: np.zeros(len(rows), np.int64) for name in ("start_ns", "end_ns", "parent", "depth", "flags", "tid")
    }
    for row, (back, later_ns, duration_ns, _, _) in enumerate(rows):
        parent = row - back if back else -1
        events["parent"][row] = parent = max(parent, -1)
        events["depth"][row] = events["depth"][parent] + 1 if parent >= 0 else 0
        events["start_ns"][row] = (events["start_ns"][parent] if parent >= 0 else 0) + later_ns
        events["end_ns"][row] = events["start_ns"][row] + duration_ns
    events["end_tid"] = np.array([int(is_async) for *_, is_async in rows], np.int64)
    return events


def holder(events: dict[str, Any], usable: Any, row: int) -> int:
    """The nearest usable ancestor that holds the row, by climbing."""
    start, end, above = events["start_ns"][row], events["end_ns"][row], int(events["parent"][row])
    while above >= 0 and not (usable[above] and start < events["end_ns"][above] and end <= events["end_ns"][above]):
        above = int(events["parent"][above])
    return above if usable[row] else -1


@given(ROWS, st.randoms())
def test_a_range_lies_in_its_nearest_ancestor_that_holds_it(
    rows: list[tuple[int, int, int, bool, bool]], random: Any
) -> None:
    events = events_of(rows)
    hidden = np.array([is_hidden for *_, is_hidden, _ in rows], bool)
    usable = ~hidden & (events["end_tid"] == 0)
    expected = [holder(events, usable, row) for row in range(len(rows))]
    assert nested_parents(events, hidden).tolist() == expected

    # In whatever order they come.
    places = list(range(len(rows)))
    random.shuffle(places)
    row_at = np.array([places.index(row) for row in range(len(rows))] + [-1])
    shuffled = {name: column[places] for name, column in events.items()}
    shuffled["parent"] = row_at[shuffled["parent"]]
    assert nested_parents(shuffled, hidden[places]).tolist() == [row_at[expected[place]] for place in places]


def test_tasks_that_always_overlap_take_no_longer_than_others() -> None:
    """Each begins in the one before, and outlives it: a row has as many ancestors as there are rows before it."""
    number = np.arange(CHAIN)
    events = {"start_ns": 10 * number, "end_ns": 10 * number + 15, "parent": number - 1, "depth": number}
    events |= dict.fromkeys(("flags", "tid", "end_tid"), np.zeros(CHAIN, np.int64))
    assert (nested_parents(events, np.zeros(CHAIN, bool)) == -1).all()


def test_a_parent_that_is_no_row_is_refused() -> None:
    events = events_of([(0, 0, 9, False, False), (1, 0, 9, False, False)])
    for parent in (2, 1):
        events["parent"][1] = parent
        with pytest.raises(IndexError):
            nested_parents(events, np.zeros(2, bool))
