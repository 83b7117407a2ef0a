"""Perfetto's format, read back with its own protos, by a small model of how its viewer reads it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from export_captures import device_capture
from hypothesis import given, settings
from hypothesis import strategies as st
from spool_writer import SpoolWriter

from pillion._capture import Capture
from pillion.export.perfetto import write_perfetto
from pillion.merge import merge
from pillion.merge.spool import parse_spool

protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="needs perfetto's protos")


@dataclass
class Slice:
    track: str
    name: str
    start_ns: int
    end_ns: int = -1
    annotations: dict[str, Any] = field(default_factory=dict)
    flows: list[int] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)


class Reading:
    """A trace as trace_processor takes it in: data interned in order, tracks, begin and end matched as brackets."""

    def __init__(self, capture: Capture, folder: Path) -> None:
        write_perfetto(capture, folder / "trace.pftrace")
        trace = protos.Trace()
        trace.ParseFromString((folder / "trace.pftrace").read_bytes())
        self.packets = list(trace.packet)
        self.interned: dict[str, dict[int, Any]] = defaultdict(dict)
        self.tracks: dict[int, Any] = {}
        self.slices: list[Slice] = []
        self.instants: list[tuple[str, str, int]] = []
        self.samples: list[tuple[int, int, int, int, list[str]]] = []
        for packet in self.packets:
            for descriptor, entries in packet.interned_data.ListFields():
                self.interned[descriptor.name] |= {entry.iid: entry for entry in entries}
            if packet.HasField("track_descriptor"):
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        open_slices: dict[int, list[Slice]] = defaultdict(list)
        # The viewer sorts by time and keeps the order of the file within one moment.
        for packet in sorted(self.packets, key=lambda packet: packet.timestamp):
            if packet.HasField("track_event"):
                self._event(packet, open_slices[packet.track_event.track_uuid])
            if packet.HasField("perf_sample"):
                sample = packet.perf_sample
                stack = self.stack(sample.callstack_iid)
                self.samples.append((packet.timestamp, sample.cpu, sample.tid, sample.timebase_count, stack))
        assert not any(open_slices.values()), "every slice ends"

    def _event(self, packet: Any, opened: list[Slice]) -> None:
        event = packet.track_event
        if event.type == event.TYPE_SLICE_END:
            opened.pop().end_ns = packet.timestamp
            return
        name = self.interned["event_names"][event.name_iid].name
        track = self.path(event.track_uuid)
        if event.type == event.TYPE_INSTANT:
            self.instants.append((track, name, packet.timestamp))
            return
        annotations = {
            self.interned["debug_annotation_names"][one.name_iid].name: getattr(one, one.WhichOneof("value"))
            for one in event.debug_annotations
        }
        flows = list(event.flow_ids), list(event.terminating_flow_ids)
        found = Slice(track, name, packet.timestamp, -1, annotations, *flows, self.stack(event.callstack_iid))
        opened.append(found)
        self.slices.append(found)

    def path(self, uuid: int) -> str:
        track = self.tracks[uuid]
        name = track.name or track.process.process_name or track.thread.thread_name
        return f"{self.path(track.parent_uuid)}/{name}" if track.parent_uuid else name

    def stack(self, iid: int) -> list[str]:
        """Names of the frames, root first."""
        if not iid:
            return []
        frames = [self.interned["frames"][frame] for frame in self.interned["callstacks"][iid].frame_ids]
        assert all(frame.mapping_id in self.interned["mappings"] for frame in frames)
        return [self.interned["function_names"][frame.function_name_id].str.decode() for frame in frames]

    def times(self, name: str) -> list[tuple[str, int, int]]:
        return [(one.track, one.start_ns, one.end_ns) for one in self.slices if one.name == name]


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(device_capture(), tmp_path)


def test_ranges_are_slices_of_their_threads(reading: Reading) -> None:
    assert reading.times("ProfilerStep#3") == [("train/train", 10_000, 20_000)]
    assert reading.times("aten::mm") == [("train/train", 11_000, 15_000)]
    assert reading.instants == [("train/autograd", "loss", 18_700)]


def test_what_overlaps_without_nesting_is_on_tracks_of_its_own(reading: Reading) -> None:
    assert reading.times("half") == [("train/autograd", 18_000, 18_600)]
    assert reading.times("other half") == [("train/autograd/overlapping", 18_300, 18_900)]
    assert reading.times("request") == [("train/async", 17_000, 19_000)]
    assert reading.times("gemm<float>") == [("GPU 0/stream 7", 14_000, 16_500), ("GPU 0/stream 7", 16_000, 18_000)]
    assert reading.times("Context Sync") == [("GPU 0/stream -1", 18_000, 19_000)]


def test_waits_and_samples_have_their_stacks(reading: Reading) -> None:
    assert reading.times("do_nanosleep") == [("train/autograd/waits", 17_100, 17_900)]
    (wait,) = (one for one in reading.slices if one.name == "do_nanosleep")
    assert wait.stack == ["main", "do_nanosleep"]
    assert reading.samples == [
        (14_500, 2, 41, 1_009, ["main", "matmul", "gemm"]),
        (14_800, 2, 41, 1_013, []),
    ]


def test_details_are_annotations(reading: Reading) -> None:
    (operator,) = (one for one in reading.slices if one.name == "aten::mm")
    assert operator.annotations == {
        "External id": 2,
        "Sequence number": 7,
        "Fwd thread id": 0,
        "Input Dims": "[[2, 3], [3, 5]]",
    }
    assert operator.stack == ["main", "matmul"]
    (copy,) = (one for one in reading.slices if one.name == "Memcpy HtoD")
    assert (copy.annotations["bytes"], copy.annotations["stream"]) == (4096, 7)


def test_flows_lead_to_kernels_and_backward_passes(reading: Reading) -> None:
    target = {flow: one.name for one in reading.slices for flow in one.arrivals}
    arrows = [(one.name, target[flow]) for one in reading.slices for flow in one.flows]
    assert sorted(arrows) == [
        ("aten::mm", "MmBackward0"),
        ("cudaLaunchKernel", "gemm<float>"),
        ("cudaLaunchKernel", "gemm<float>"),
        ("cudaMemcpyAsync", "Memcpy HtoD"),
    ]


def test_the_clock_is_tied_to_the_wall_clock(reading: Reading) -> None:
    snapshot = reading.packets[0].clock_snapshot
    assert [(clock.clock_id, clock.timestamp) for clock in snapshot.clocks] == [(3, 10_000), (1, 5_000_010_000)]
    assert snapshot.primary_trace_clock == protos.BUILTIN_CLOCK_MONOTONIC
    assert reading.packets[1].trace_packet_defaults.timestamp_clock_id == protos.BUILTIN_CLOCK_MONOTONIC
    assert [packet.sequence_flags for packet in reading.packets[1:]] == [1] + [2] * (len(reading.packets) - 2)


def test_a_trace_of_nothing_is_valid(spool: SpoolWriter, tmp_path: Path) -> None:
    tables, meta = merge(parse_spool(spool.to_bytes()))
    assert Reading(Capture(tables, meta), tmp_path).slices == []


@settings(max_examples=50, deadline=None)
@given(name=st.text(), intervals=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), max_size=12))
def test_any_intervals_and_names_come_back(
    name: str, intervals: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    spool = SpoolWriter()
    spool.region(1, 41)
    for seq, (start, duration) in enumerate(intervals, start=1):
        spool.record(1, 7, name, start, start + duration, seq=seq)
    tables, meta = merge(parse_spool(spool.to_bytes()))
    reading = Reading(Capture(tables, meta), tmp_path_factory.mktemp("t"))
    found = sorted((one.start_ns, one.end_ns - one.start_ns) for one in reading.slices)
    assert found == sorted(intervals)
    assert {one.name for one in reading.slices} <= {name}
