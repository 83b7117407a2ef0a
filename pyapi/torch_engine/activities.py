"""Work of devices in torch's trace and in Pillion's own recording, as one table ``activities``.

As a rule one of the two has any: a process has one subscriber to CUPTI. Where torch tells of some, what Pillion saw of
the same process is left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pillion._tables import Array, Columns, Labels, Tables, column, length
from pillion.merge.launches import causes
from pillion.model.memory import MEMORY_EVENT_NAME
from pillion.model.rows import UNLISTED
from pillion.torch_engine.texts import AppendedTexts
from pillion.torch_engine.trace import TorchTrace

MEMORY_DEVICES = {"cpu_memory": (0, 2, 5), "device_memory": (1, 6, 12, 20)}  # CPU, MKLDNN, IDEEP; CUDA, HIP, XPU, …
_KERNEL_DEVICES = (1, 12, 20)  # DeviceType: CUDA, XPU, PrivateUse1
_CUDA = 1
_ACTIVITY_KINDS = {
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memset",
    "cuda_sync": "sync",
    "concurrent_kernel": "kernel",
    "gpu_user_annotation": "user_annotation",
}


class TorchActivities(NamedTuple):
    """A table of activities, and what the lists of its events know beyond it.

    Attributes:
        source: of each activity its row in torch's trace, −1 for Pillion's own.
        detail: ``Detail.device``.
    """

    table: Columns
    source: Array
    detail: dict[str, Array]


def device_rows(trace: TorchTrace, mask: Array) -> Array:
    """The rows of a mask in the order of the table."""
    rows = np.flatnonzero(mask)
    ordered: Array = rows[np.argsort(trace.columns["start_ns"][rows], kind="stable")]
    return ordered


def has_device_work(trace: TorchTrace, devices: Array) -> bool:
    """Whether any of these rows is more than an allocation."""
    return bool(len(np.setdiff1d(devices, trace.memory)))


def kept_activities(tables: Tables, moved: Array, events: Columns, pid: int, has_work: bool) -> Columns:
    """Pillion's own activities with their launches and causes in the joined table of events.

    Args:
        moved: of each row of the old events its new one, −1 for none; the last is for −1.
        has_work: torch tells of what devices did for the process ``pid``.
    """
    activities = tables["activities"]
    launch = column("activities", activities, "launch")
    if has_work:
        others = np.append(tables["events"]["pid"] != pid, False)
        kept = np.flatnonzero(others[launch])
    else:
        kept = np.arange(length(activities))
    taken = {name: values.take(kept) if name == "kind" else values[kept] for name, values in activities.items()}
    taken["launch"] = moved[launch[kept]]
    taken["event"] = np.where(taken["launch"] >= 0, causes(events, taken["launch"]), moved[taken["event"]])
    return taken


def join_activities(torch: TorchActivities, ours: Columns, is_listed: bool) -> TorchActivities:
    """Both, in the order of their time.

    Args:
        is_listed: lists of events shall have ours too.
    """
    count = length(ours)
    if not count:
        return torch
    names = [name for name in torch.table if name != "kind"] + ["context", "attributes"]
    table = {**torch.table, "context": torch.source * 0, "attributes": (torch.source * 0).astype(np.int32)}
    table = {name: np.concatenate([table[name], column("activities", ours, name)]) for name in names}
    texts = list(dict.fromkeys((*torch.table["kind"].texts, *ours["kind"].texts)))
    codes = [
        np.array([texts.index(text) for text in kinds.texts], np.int32)[kinds.codes]
        for kinds in (torch.table["kind"], ours["kind"])
    ]
    detail = {
        "listed": ~ours["kind"].isin(*UNLISTED) & is_listed,
        "device_type": np.full(count, _CUDA),
        "annotation": np.zeros(count, bool),
        "thread": ours["stream"],
        "number": ours["correlation"],
        **{name: np.zeros(count, np.int64) for name in MEMORY_DEVICES},
    }
    order = np.argsort(table["start_ns"], kind="stable")
    return TorchActivities(
        {
            "kind": Labels(np.concatenate(codes)[order], tuple(texts)),
            **{name: values[order] for name, values in table.items()},
        },
        np.concatenate([torch.source, np.full(count, -1)])[order],
        {name: np.concatenate([values, detail[name]])[order] for name, values in torch.detail.items()},
    )


def operators(trace: TorchTrace, ranges: Array, linked: Array) -> Array:
    """For numbers that something is linked to the trace's row of the operator with that number, −1 for none."""
    if not len(linked):
        return np.zeros(0, np.int64)
    of = trace.columns
    fronts = ranges[(of["linked"][ranges] == 0) & ~of["is_async"][ranges] & ~trace.hidden[ranges]]
    numbers, first = np.unique(of["number"][fronts], return_index=True)
    if not len(numbers):
        return np.full(len(linked), -1)
    at = np.minimum(np.searchsorted(numbers, linked), len(numbers) - 1)
    return np.where((numbers[at] == linked) & (linked > 0), fronts[first[at]], -1)


def torch_activities(
    trace: TorchTrace, devices: Array, ranges: Array, row_of_source: Array, texts: AppendedTexts, offset_ns: int
) -> Columns:
    """Torch's own.

    Args:
        devices: rows of the trace, in the order of the table.
        row_of_source: of each row of the trace that of the table of events.
    """
    of = trace.columns
    linked, number = of["linked"][devices], of["number"][devices]
    cause = operators(trace, ranges, linked)
    cause = np.where(np.isin(of["device_type"][devices], _KERNEL_DEVICES), cause, -1)
    calls = ranges[of["linked"][ranges] > 0]
    known, first = np.unique(of["number"][calls], return_index=True)
    at = np.minimum(np.searchsorted(known, number), max(len(known) - 1, 0))
    launches = np.where(known[at] == number, calls[first[at]], -1) if len(known) else np.full(len(devices), -1)
    is_memory = np.isin(devices, trace.memory)
    kinds = tuple(_ACTIVITY_KINDS.get(kind, kind) for kind in of["kind"].texts)
    names = (*kinds, "memory")
    codes = np.where(is_memory, len(kinds), of["kind"].codes[devices]).astype(np.int32)
    return {
        "kind": Labels(codes, names),
        "name": texts.rows[of["name"][devices]],
        "start_ns": of["start_ns"][devices] - offset_ns,
        "end_ns": np.where(is_memory, of["start_ns"][devices], of["end_ns"][devices]) - offset_ns,
        "device": of["device_index"][devices],
        "stream": of["tid"][devices],
        "correlation": number,
        "event": _rows(row_of_source, cause),
        "launch": _rows(row_of_source, np.where(is_memory, -1, launches)),
        "bytes": of["bytes"][devices],
    }


def _rows(row_of_source: Array, sources: Array) -> Array:
    return np.where(sources >= 0, row_of_source[sources], -1)


def device_detail(trace: TorchTrace, devices: Array, outside_rows: Array) -> dict[str, Array]:
    """``Detail.device``, in the order of the activities."""
    of = trace.columns
    is_memory = np.isin(devices, trace.memory)
    outside = np.isin(devices, outside_rows)
    numbers = of["number"][devices].copy()
    shown = ~trace.hidden
    # torch numbers these on from the greatest of the others, what could not be allocated last.
    is_allocation = of["name"] == (trace.texts.index(MEMORY_EVENT_NAME) if MEMORY_EVENT_NAME in trace.texts else -1)
    places = np.flatnonzero(outside)
    places = places[np.lexsort((devices[places], ~is_allocation[devices[places]]))]
    numbers[places] = int(of["number"][shown].max(initial=0)) + 1 + np.arange(len(places))
    return {
        "listed": np.where(is_memory, outside, shown[devices]),
        "device_type": np.where(is_memory, 0, of["device_type"][devices]),
        "annotation": of["annotation"][devices] & ~is_memory,
        "thread": of["thread"][devices],
        "number": numbers,
        **{
            name: np.where(is_memory & np.isin(of["device_type"][devices], kinds), of["bytes"][devices], 0)
            for name, kinds in MEMORY_DEVICES.items()
        },
    }
