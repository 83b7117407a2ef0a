"""A trace in Perfetto's own format, for ui.perfetto.dev and trace_processor.

Each thread has a track with its events, one with its waits, and its samples with their stacks; each stream of a device
has one. Slices of a track must nest, so what only overlaps goes to a sibling track. Ranges that ended on another
thread are on tracks of their process. Times are nanoseconds of the capture's clock; one snapshot ties it to the wall
clock.

The format: protos/perfetto/trace/trace_packet.proto and what it includes, at Perfetto 0.59. Numbers in the code are
those of its fields, with their names beside them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pillion.export._file import binary_output
from pillion.export._perfetto_packets import FIRST, Packets
from pillion.export._perfetto_samples import write_samples, write_stacks
from pillion.export._perfetto_slices import write_activities, write_events, write_waits
from pillion.export._perfetto_tracks import Tracks
from pillion.export._protobuf import integer, message

if TYPE_CHECKING:
    from pillion._capture import Capture

_MONOTONIC, _REALTIME = 3, 1  # BuiltinClock
_SW_CPU_CLOCK = 1  # PerfEvents.Counter


def write_perfetto(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write the trace; gzipped where the path ends in ``.gz``, which the viewer opens as well.

    Raises:
        OSError: the file cannot be written.
    """
    tables = capture.columns
    with binary_output(path) as file:
        packets = Packets(file)
        packets.one(_clocks(capture.meta), b"")
        packets.one(_defaults(capture.meta), FIRST)
        tracks = Tracks(tables, capture.meta, packets)
        write_stacks(tables, packets)
        write_events(tables, packets, tracks)
        write_activities(tables, packets, tracks)
        write_waits(tables, packets, tracks)
        write_samples(tables, packets)


def _clocks(meta: dict[str, Any]) -> bytes:
    start_ns = max(int(meta["start_ns"]), 0)
    wall_ns = max(start_ns + int(meta["realtime_offset_ns"]), 0)
    return message(  # clock_snapshot {clocks {clock_id, timestamp} primary_trace_clock}
        6,
        message(1, integer(1, _MONOTONIC), integer(2, start_ns)),
        message(1, integer(1, _REALTIME), integer(2, wall_ns)),
        integer(2, _MONOTONIC),
    )


def _defaults(meta: dict[str, Any]) -> bytes:
    timebase = [integer(4, _SW_CPU_CLOCK)]  # counter
    if rate_hz := int(meta.get("rate_hz") or 0):
        timebase.append(integer(2, rate_hz))  # frequency
    return message(  # trace_packet_defaults {timestamp_clock_id perf_sample_defaults {timebase}}
        59, integer(58, _MONOTONIC), message(12, message(1, *timebase))
    )
