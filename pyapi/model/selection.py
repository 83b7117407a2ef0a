"""Which events a table shows, in which order, of a million without looking at each as an object."""

from __future__ import annotations

import numpy as np

from pillion._tables import Array
from pillion.model.columns import EventColumns

# Sortable attributes of a FunctionEvent and the column that orders them alike.
_ORDERS = {
    "cpu_time_total": "cpu_us",
    "cpu_time": "cpu_us",
    "self_cpu_time_total": "self_us",
    "device_time_total": "device_us",
    "device_time": "device_us",
    "self_device_time_total": "self_device_us",
    "cpu_memory_usage": "cpu_memory",
    "self_cpu_memory_usage": "self_cpu_memory",
    "device_memory_usage": "device_memory",
    "self_device_memory_usage": "self_device_memory",
    "flops": "flops",
}


def shown_places(columns: EventColumns, attribute: str | None, limit: int, top_level_only: bool) -> Array | None:
    """Places of the first ``limit`` events (−1: all) by an attribute, descending; None if it is no column."""
    if attribute is not None and attribute not in _ORDERS:
        return None
    places = np.flatnonzero(columns.parent_place < 0) if top_level_only else None
    if attribute is None:
        places = np.arange(len(columns)) if places is None else places
        return places if limit < 0 else places[:limit]
    values: Array = getattr(columns, _ORDERS[attribute])
    values = values if places is None else values[places]
    if 0 < limit < len(values):
        # Only what can be among them is sorted.
        least = np.partition(values, len(values) - limit)[len(values) - limit]
        candidates = np.flatnonzero(values >= least)
        order = candidates[np.argsort(-values[candidates], kind="stable")][:limit]
    else:
        order = np.argsort(-values, kind="stable")
        order = order if limit < 0 else order[:limit]
    return order if places is None else places[order]
