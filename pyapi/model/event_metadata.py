"""What a tracer of a device says of one event, by the names and in the types that torch gives it.

The keys are those of Kineto's traces, as torch 2.13 translates them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class EventMetadata(NamedTuple):
    """What is not known is None."""

    registers_per_thread: int | None
    shared_memory: int | None
    grid: list[int] | None
    block: list[int] | None
    priority: int | None
    blocks_per_sm: float | None
    warps_per_sm: float | None
    occupancy: dict[str, Any] | None
    est_occupancy_pct: float | None
    queued: int | None
    graph_id: int | None
    graph_node_id: int | None
    stream: int | None
    context: int | None
    channel: int | None
    channel_type: int | None
    bytes: int | None
    bandwidth_gb_s: float | None
    collective_name: str | None
    dtype: str | None
    in_msg_nelems: int | None
    out_msg_nelems: int | None
    in_split_size: str | None
    out_split_size: str | None
    global_rank_start: int | None
    global_rank_stride: int | None
    group_size: int | None
    process_group_name: str | None
    process_group_desc: str | None
    group_ranks: str | None
    rank: int | None
    src_rank: int | None
    dst_rank: int | None
    seq: int | None
    is_async: bool | None


def _unquoted(text: str) -> str:
    return text.strip('"')


def _truth(text: str) -> bool:
    return text in ("1", "true")


# Kineto's key to the attribute and what makes a value of its text.
_KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "registers per thread": ("registers_per_thread", int),
    "shared memory": ("shared_memory", int),
    "grid": ("grid", json.loads),
    "block": ("block", json.loads),
    "priority": ("priority", int),
    "blocks per SM": ("blocks_per_sm", float),
    "warps per SM": ("warps_per_sm", float),
    "occupancy": ("occupancy", json.loads),
    "est. achieved occupancy %": ("est_occupancy_pct", float),
    "queued": ("queued", int),
    "graph id": ("graph_id", int),
    "graph node id": ("graph_node_id", int),
    "stream": ("stream", int),
    "context": ("context", int),
    "channel": ("channel", int),
    "channel_type": ("channel_type", int),
    "bytes": ("bytes", int),
    "memory bandwidth (GB/s)": ("bandwidth_gb_s", float),
    "Collective name": ("collective_name", _unquoted),
    "dtype": ("dtype", _unquoted),
    "In msg nelems": ("in_msg_nelems", int),
    "Out msg nelems": ("out_msg_nelems", int),
    "In split size": ("in_split_size", _unquoted),
    "Out split size": ("out_split_size", _unquoted),
    "Global rank start": ("global_rank_start", int),
    "Global rank stride": ("global_rank_stride", int),
    "Group size": ("group_size", int),
    "Process Group Name": ("process_group_name", _unquoted),
    "Process Group Description": ("process_group_desc", _unquoted),
    "Process Group Ranks": ("group_ranks", _unquoted),
    "Rank": ("rank", int),
    "Src Rank": ("src_rank", int),
    "Dst Rank": ("dst_rank", int),
    "Seq": ("seq", int),
    "Is asynchronized op": ("is_async", _truth),
}


def event_metadata(texts: Mapping[str, str] | None) -> EventMetadata | None:
    """What the texts of a tracer say, by Kineto's keys; None where they hold nothing of what is known.

    Raises:
        ValueError: a text is not what its key holds, as in torch.
    """
    found = {name: convert(texts[key]) for key, (name, convert) in _KEYS.items() if key in texts} if texts else {}
    return EventMetadata(**{**dict.fromkeys(EventMetadata._fields), **found}) if found else None
