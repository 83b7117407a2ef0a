"""torch's trace joined to Pillion's own recording of the same time: what both saw is there once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from spool_writer import SpoolWriter, gpu_spool

from pillion._capture import Capture
from pillion._tables import Labels, check_references, column
from pillion.merge import merge
from pillion.merge.spool import parse_spool
from pillion.model import EventList, event_list
from pillion.torch_engine.join import join
from pillion.torch_engine.trace import TorchTrace
from pillion_probes.layout import CONSTANTS

_OFFSET_NS = 50_000  # torch's clock less ours
_TORCH = CONSTANTS["PLN_SOURCE_TORCH"]


class Nothing:
    """A result of torch's that is asked for nothing."""

    def events(self) -> list[Any]:
        return []


def torch_trace(*rows: dict[str, Any]) -> TorchTrace:
    """What torch recorded; a row is on the CPU and on thread 41 unless it says otherwise."""
    texts, kinds = [""], ["cpu_op"]
    defaults: dict[str, Any] = {
        **dict.fromkeys(("linked", "scope", "fwd_thread", "device_type", "device_index", "bytes"), 0),
        "thread": 1,
        "tid": 41,
        "sequence_nr": -1,
        "is_async": False,
        "annotation": False,
        "kind": "cpu_op",
    }
    made = [{**defaults, "number": place, **row} for place, row in enumerate(rows, start=1)]
    for row in made:
        row["name"] = (texts.append(row["name"]), len(texts) - 1)[1]
        if row["kind"] not in kinds:
            kinds.append(row["kind"])
        row["start_ns"], row["end_ns"] = row["start_ns"] + _OFFSET_NS, row["end_ns"] + _OFFSET_NS
    columns: dict[str, Any] = {name: np.array([row[name] for row in made]) for name in made[0] if name != "kind"}
    columns["kind"] = Labels(np.array([kinds.index(row["kind"]) for row in made], np.int32), tuple(kinds))
    return TorchTrace(columns, np.zeros(len(made), bool), np.zeros(0, np.int64), texts, [()], 1_000 + _OFFSET_NS)


def joined(spool: SpoolWriter, trace: TorchTrace, use_device: str | None = None) -> tuple[Capture, EventList]:
    tables, meta = merge(parse_spool(spool.to_bytes()))
    both = join(tables, trace, Nothing(), pid=41, offset_ns=_OFFSET_NS, use_device=use_device)
    check_references(both.tables)
    return Capture(both.tables, meta), event_list(both.tables, 1_000, detail=both.detail)


def names(capture: Capture, rows: Any) -> list[str]:
    texts = capture.columns["strings"]["text"]
    return [str(texts[row]) for row in np.asarray(rows)]


MM = {"name": "aten::mm", "start_ns": 1_101, "end_ns": 3_001, "sequence_nr": 7}


@pytest.fixture
def ops(spool: SpoolWriter) -> SpoolWriter:
    """A step of ours with an operator that our hook saw too, a sample in it, and a worker's operator."""
    spool.region(2, 42)
    spool.record(1, 41, "step", 1_000, 5_000, seq=1)
    spool.record(1, 41, "aten::mm", 1_100, 3_000, seq=2, parent=1, depth=1, source=_TORCH, value=7)
    spool.record(1, 41, "inside", 1_200, 1_300, seq=3, parent=2, depth=2)
    spool.record(2, 42, "aten::stack", 1_100, 3_000, seq=1, source=_TORCH)
    spool.sample("SAMPLE", 41, 41, 2_000, 2_000, range_seq=2, range_name=spool.string(1, "aten::mm"), weight_ns=7)
    return spool


def test_an_operator_that_both_saw_is_there_once(ops: SpoolWriter) -> None:
    capture, events = joined(ops, torch_trace(MM))
    assert [(event.name, event.time_range.start) for event in events] == [
        ("step", 0.0),
        ("aten::stack", 0.1),
        ("aten::mm", 0.101),
        ("inside", 0.2),
    ]
    table = capture.columns["events"]
    assert names(capture, table["name"]) == ["step", "aten::mm", "inside", "aten::stack"]
    assert table["parent"].tolist() == [-1, 0, 1, -1]
    assert [events[place].cpu_parent and events[place].cpu_parent.name for place in (2, 3)] == ["step", "aten::mm"]


def test_what_lay_in_an_operator_lies_in_torchs(ops: SpoolWriter) -> None:
    capture, _ = joined(ops, torch_trace(MM))
    samples = capture.columns["samples"]
    assert (samples["event"].tolist(), names(capture, samples["range_name"])) == ([1], ["aten::mm"])


def test_operators_that_torch_does_not_see_stay(ops: SpoolWriter) -> None:
    """Those of other processes: torch's profiler is in one."""
    capture, _ = joined(ops, torch_trace(MM))
    table = capture.columns["events"]
    assert [name for name, pid in zip(names(capture, table["name"]), table["pid"]) if pid == 42] == ["aten::stack"]


def test_work_of_devices_that_only_we_saw_belongs_to_torchs_operators() -> None:
    capture, events = joined(gpu_spool(), torch_trace(MM), use_device="cuda")
    activities = capture.columns["activities"]
    assert names(capture, capture.columns["events"]["name"][activities["event"]]) == [
        *("aten::mm", "aten::mm", "eval", "aten::mm"),
        *["cudaGraphLaunch"] * 3,
        "cudaLaunchKernel",
    ]
    assert capture.columns["events"]["start_ns"][activities["event"][0]] == 1_101  # torch's own
    found = {event.name: event.device_time_total for event in events if event.name in ("step", "aten::mm", "eval")}
    assert found == {"step": 1.3, "aten::mm": 1.3, "eval": 0.017}
    assert sum(event.name == "relu" for event in events) == 1
    assert column("activities", activities, "attributes")[0] > 0


def test_a_profile_of_the_cpu_alone_lists_no_work_of_devices() -> None:
    capture, events = joined(gpu_spool(), torch_trace(MM))
    assert len(capture.columns["activities"]["name"]) == 8
    assert not {"relu", "node"} & {event.name for event in events}
    assert sum(event.device_time_total for event in events) == 0


def test_work_of_devices_that_both_saw_is_there_once() -> None:
    call = {"name": "cudaLaunchKernel", "start_ns": 1_201, "end_ns": 1_301, "kind": "cuda_runtime"}
    kernel = {"name": "relu", "start_ns": 1_601, "end_ns": 2_301, "kind": "concurrent_kernel", "tid": 13}
    later = {"name": "copy", "start_ns": 1_501, "end_ns": 1_511, "kind": "gpu_memcpy", "tid": 7}
    device = {"device_type": 1, "linked": 1, "number": 2}
    rows = ({**MM, "number": 1}, {**call, "number": 2, "linked": 1}, {**kernel, **device}, {**later, **device})
    capture, events = joined(gpu_spool(), torch_trace(*rows), use_device="cuda")
    activities, table = capture.columns["activities"], capture.columns["events"]
    of_ours = [name for name, pid in zip(names(capture, table["name"]), table["pid"]) if pid == 41]
    assert of_ours == ["step", "aten::mm", "cudaLaunchKernel"]
    found = zip(names(capture, activities["name"]), names(capture, table["name"][activities["event"]]))
    # The other process's kernel is only in ours.
    assert list(found) == [("copy", "aten::mm"), ("relu", "aten::mm"), ("void gemm<float>(float*)", "eval")]
    assert {event.name: event.device_time_total for event in events if event.name in ("aten::mm", "eval")} == {
        "aten::mm": 0.71,
        "eval": 0.017,
    }
