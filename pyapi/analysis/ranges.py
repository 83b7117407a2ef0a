"""Where the time went, by the name of ranges."""

from __future__ import annotations

import numpy as np

from pillion._tables import Array, Columns, Tables, length
from pillion.model.columns import WORK
from pillion.model.tree import Measure, attribute, inclusive, levels, nested_parents, self_times, sums


def ranges(tables: Tables) -> Columns:
    """One row for each range name.

    Wall times are torch's: ``cpu_total_ns`` the durations, ``self_cpu_ns`` less those of nested ranges. On-CPU times
    are sampled CPU time, off-CPU times the parts of waits inside the range. A name nested in itself counts in each
    total, as in torch. Where devices did anything, ``device_ns`` is the time of the work that was launched inside, and
    ``self_device_ns`` of that which was launched by the range itself.
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
    if length(tables["activities"]):
        launched = _launched_ns(tables)
        columns["self_device_ns"] = by_name(launched)
        columns["device_ns"] = by_name(inclusive(launched, events["parent"], levels(events)))
    used = np.flatnonzero((columns["calls"] > 0) | (columns["samples"] > 0) | (columns["off_cpu_ns"] > 0))
    return {"name": tables["strings"]["text"][used], **{key: column[used] for key, column in columns.items()}}


def _launched_ns(tables: Tables) -> Array:
    """Of each event the time of the work of devices that it caused."""
    activities = tables["activities"]
    is_work = activities["kind"].isin(*WORK)
    duration = np.maximum(activities["end_ns"] - activities["start_ns"], 0)
    return sums(np.where(is_work, activities["event"], -1), duration, length(tables["events"]))
