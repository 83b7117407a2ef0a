"""Ranges of a trace whose begin and end are two events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pillion._tables import Array
from pillion.importers.distinct import distinct


class Pairs(NamedTuple):
    """Places of begins, and the place of the end of each, −1 where none came; places of ends without a begin."""

    begin: Array
    end: Array
    lonely: Array


def pair(place: Array, is_begin: Array, key: Array, time: Array) -> Pairs:
    """Each end belongs to the last begin of its key that is still open.

    Args:
        place: of the events, ascending.
        is_begin: by event; the others are ends.
        key: what begin and end have in common: a thread, or an id.
        time: of equal times those first in place come first.
    """
    order = np.lexsort((time, key))
    place, is_begin, key = place[order], is_begin[order], key[order]
    # How many are open: an end has the level of its begin. Those without a begin would lower all that follow.
    step = np.where(is_begin, 1, -1)
    open_ = np.cumsum(step)
    first = np.flatnonzero(np.diff(key, prepend=key[:1] - 1)) if len(key) else np.empty(0, np.int64)
    group = np.repeat(np.arange(len(first)), np.diff(first, append=len(key)))
    open_ -= (open_[first] - step[first])[group] if len(key) else 0
    lowest = _running_minimum(open_, group)
    lonely = ~is_begin & (open_ < 0) & (open_ == lowest) & _falls(lowest, group)
    level = open_ - np.minimum(lowest, 0) + ~is_begin
    matched = np.flatnonzero(~lonely)
    by_level = matched[np.lexsort((matched, level[matched], group[matched]))]
    begins = np.flatnonzero(is_begin[by_level])
    following = np.minimum(begins + 1, max(len(by_level) - 1, 0))
    here, there = by_level[begins], by_level[following]
    closes = ~is_begin[there] & (level[there] == level[here]) & (group[there] == group[here])
    return Pairs(place[here], np.where(closes, place[there], -1), place[lonely])


def pair_named(place: Array, is_begin: Array, key: Array, time: Array, name: Array) -> Pairs:
    """As ``pair``, where ends may say by name what they end.

    Ranges of a key are taken for a stack unless an end names another one of them: then those of that key belong
    together by their names.

    Args:
        name: numbers, 0 for none.
    """
    pairs = pair(place, is_begin, key, time)
    named = distinct(key, name)[1]
    row = np.zeros(int(place.max(initial=0)) + 1, np.int64)
    row[place] = np.arange(len(place))
    matched = pairs.end >= 0
    begin, end = row[pairs.begin[matched]], row[pairs.end[matched]]
    is_other = (name[begin] != name[end]) & (name[end] != 0) & np.isin(named[end], named[is_begin])
    if not is_other.any():
        return pairs
    by_name = np.isin(key, key[end[is_other]])
    return pair(place, is_begin, distinct(key, np.where(by_name, name, -1))[1], time)


def _running_minimum(values: Array, group: Array) -> Array:
    """The least value so far in each group; groups come one after the other."""
    span = int(values.max() - values.min()) + 1 if len(values) else 1
    lowered: Array = np.minimum.accumulate(values - group * span) + group * span
    return lowered


def _falls(lowest: Array, group: Array) -> Array:
    """Where a running minimum below 0 is lower than before."""
    before = np.concatenate([[0], lowest[:-1]]) if len(lowest) else lowest
    same = np.concatenate([[False], group[1:] == group[:-1]]) if len(group) else np.empty(0, bool)
    falls: Array = lowest < np.where(same, np.minimum(before, 0), 0)
    return falls
