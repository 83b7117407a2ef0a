"""Where the time went, by the name of ranges."""

from __future__ import annotations

import numpy as np

from pillion._tables import Array, Columns, Tables, length
from pillion.model.tree import Measure, attribute, nested_parents, self_times, sums


def ranges(tables: Tables) -> Columns:
    """One row for each range name.

    Wall times are torch's: ``cpu_total_ns`` the durations, ``self_cpu_ns`` less those of nested ranges. On-CPU times
    are sampled CPU time, off-CPU times the parts of waits inside the range. A name nested in itself counts in each
    total, as in torch.
    """
    events = tables["events"]
    count = length(tables["strings"])
    duration = events["end_ns"] - events["start_ns"]
    own = self_times(events, nested_parents(events, np.zeros(len(duration), bool)))
    of = attribute(tables)

    def by_name(values: Array) -> Array:
        return sums(events["name"], values, count)

    def total(measure: Measure) -> Array:
        return by_name(measure.total) + measure.by_name

    columns: Columns = {
        "calls": np.bincount(events["name"], minlength=count).astype(np.int64),
        "self_cpu_ns": by_name(own),
        "cpu_total_ns": by_name(duration),
        "samples": total(of.samples),
        "self_on_cpu_ns": by_name(of.on_cpu.own) + of.on_cpu.by_name,
        "on_cpu_ns": total(of.on_cpu),
        "self_off_cpu_ns": by_name(of.off_cpu.own) + of.off_cpu.by_name,
        "off_cpu_ns": total(of.off_cpu),
        "runnable_ns": total(of.runnable),
    }
    used = np.flatnonzero((columns["calls"] > 0) | (columns["samples"] > 0) | (columns["off_cpu_ns"] > 0))
    return {"name": tables["strings"]["text"][used], **{key: column[used] for key, column in columns.items()}}
