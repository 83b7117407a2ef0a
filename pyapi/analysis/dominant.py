"""What most of the time of a group went to."""

from __future__ import annotations

import numpy as np

from pillion._tables import Array
from pillion.model.tree import sums


def dominant(group: Array, value: Array, weight: Array, count: int) -> Array:
    """For each group the value with the greatest sum of weights, the least of several."""
    values, which = np.unique(value, return_inverse=True)
    pairs, pair = np.unique(group * max(len(values), 1) + which, return_inverse=True)
    weights = sums(pair, weight, len(pairs))
    pair_group = pairs // max(len(values), 1)
    order = np.lexsort((-weights, pair_group))
    first = order[np.searchsorted(pair_group, np.arange(count))]
    dominant: Array = values[pairs[first] % max(len(values), 1)]
    return dominant
