"""Writes spools for tests: the other side of pillion.merge.spool."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from pillion.merge.spool import ACTIVITY_DTYPE, BLOCK_DTYPE, RANGE_DTYPE, SAMPLE_DTYPE
from pillion_probes.layout import CONSTANTS

SECOND = 1_000_000_000


class SpoolWriter:
    """Builds the bytes of a spool.

    Strings are interned for each region as the library does it; ranges and samples are flushed as blocks by
    ``to_bytes``.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self._logs: dict[int, bytearray] = {}
        self._ids: dict[tuple[int, str], int] = {}
        self._pids: dict[int, int] = {}
        self._records: dict[int, list[Any]] = {}
        self._samples: list[Any] = []
        self._objects: list[dict[str, Any]] = []

    def block(self, kind: str, payload: bytes, pid: int = 0, region: int = 0, offset: int = 0) -> None:
        header = np.zeros(1, BLOCK_DTYPE)
        header["magic"] = CONSTANTS["PLN_BLOCK_MAGIC"]
        header["version"] = CONSTANTS["PLN_VERSION"]
        header["kind"] = CONSTANTS[f"PLN_BLOCK_{kind}"]
        header["pid"], header["region"], header["offset"], header["length"] = pid, region, offset, len(payload)
        self.data += header.tobytes() + payload

    def region(self, region: int, pid: int, start_ns: int = 0) -> None:
        self._pids[region] = pid
        self._logs[region] = bytearray(8)
        self._ids[region, ""] = 0
        self.object("region", region=region, pid=pid, start_ns=start_ns)

    def string(self, region: int, text: str) -> int:
        if (region, text) not in self._ids:
            log, raw = self._logs[region], text.encode()
            self._ids[region, text] = len(log) // 8
            log += len(raw).to_bytes(4, "little") + bytes(4) + raw + bytes(-len(raw) % 8)
        return self._ids[region, text]

    def record(self, region: int, tid: int, name: str, start_ns: int, end_ns: int, **fields: Any) -> None:
        record = np.zeros(1, RANGE_DTYPE)[0]
        record["kind"] = CONSTANTS["PLN_RANGE"]
        record["tid"], record["end_tid"] = tid, tid
        record["start_ns"], record["end_ns"] = start_ns, end_ns
        record["name"] = self.string(region, name)
        for field, value in fields.items():
            record[field] = self.string(region, value) if isinstance(value, str) else value
        self._records.setdefault(region, []).append(record)

    def call(self, region: int, tid: int, name: str, start_ns: int, end_ns: int, number: int, **fields: Any) -> None:
        """A call into CUDA; ``epoch`` is 1 unless it is given."""
        value = fields.pop("epoch", 1) << 32 | number
        source = CONSTANTS["PLN_SOURCE_CUDA"]
        self.record(region, tid, name, start_ns, end_ns, source=source, value=value, **fields)

    def activity(self, region: int, activity: int, start_ns: int, end_ns: int, number: int = 0, **fields: Any) -> None:
        """Something that a device did: ``activity`` is CUPTI's kind; ``epoch`` is 1 unless it is given."""
        record = np.zeros(1, ACTIVITY_DTYPE)[0]
        record["kind"], record["activity"] = CONSTANTS["PLN_ACTIVITY"], activity
        record["tid"], record["start_ns"], record["end_ns"] = 9_999, start_ns, end_ns
        record["correlation"], record["epoch"] = number, 1
        for field, value in fields.items():
            record[field] = self.string(region, value) if isinstance(value, str) else value
        self._records.setdefault(region, []).append(np.array([record]).view(RANGE_DTYPE)[0])

    def notice(self, region: int, text: str, scope: str = "TEXT", **fields: Any) -> None:
        kind, source = CONSTANTS["PLN_NOTICE"], CONSTANTS["PLN_SOURCE_CUDA"]
        about = CONSTANTS[f"PLN_NOTICE_{scope}"]
        self.record(region, 9_999, text, 10, 10, kind=kind, source=source, scope=about, **fields)

    def sample(self, kind: str, pid: int, tid: int, start_ns: int, end_ns: int, **fields: Any) -> None:
        record = np.zeros(1, SAMPLE_DTYPE)[0]
        record["kind"] = CONSTANTS[f"PLN_{kind}"]
        record["pid"], record["tid"], record["start_ns"], record["end_ns"] = pid, tid, start_ns, end_ns
        for field, value in fields.items():
            record[field] = value
        self._samples.append(record)

    def object(self, _type: str, **fields: Any) -> None:
        self._objects.append({"type": _type, **fields})

    def to_bytes(self) -> bytes:
        for region, log in self._logs.items():
            self.block("STRINGS", bytes(log), self._pids[region], region)
        for region, records in self._records.items():
            self.block("RECORDS", np.array(records, RANGE_DTYPE).tobytes(), self._pids[region], region)
        if self._samples:
            self.block("SAMPLES", np.array(self._samples, SAMPLE_DTYPE).tobytes())
        self.block("JSON", json.dumps(self._objects).encode())
        return bytes(self.data)


def training_spool() -> bytes:
    """One process, two threads, known to the nanosecond; see test_merge for what it must give."""
    spool = SpoolWriter()
    spool.object(
        "meta",
        version="0",
        host="box",
        kernel="6",
        ncpu=2,
        rate_hz=99,
        period_ns=10_000_000,
        wait_threshold_ns=100_000,
        transport="rings",
        start_ns=1_000,
        realtime_offset_ns=5 * SECOND,
        pids=[41],
        all=False,
        collector="agent",
    )
    spool.object(
        "process",
        pid=41,
        start_ns=500,
        ppid=1,
        end_ns=None,
        comm="train",
        cmdline=["python", "a b.py"],
        uid=0,
        python="3.11.2",
        python_unavailable=None,
    )
    spool.object(
        "thread",
        pid=41,
        tid=41,
        comm="train",
        on_cpu_ns=700,
        off_cpu_ns=300,
        runnable_ns=20,
        switches=3,
        first_ns=1_000,
        last_ns=2_000,
    )
    spool.object(
        "thread",
        pid=41,
        tid=43,
        comm="loader",
        on_cpu_ns=0,
        off_cpu_ns=1_000,
        runnable_ns=0,
        switches=1,
        first_ns=1_000,
        last_ns=2_000,
    )
    spool.region(1, 41, 900)
    spool.record(1, 41, "backward", 1_500, 1_900, seq=3, parent=1, depth=1)
    spool.record(1, 41, "forward", 1_100, 1_400, seq=2, parent=1, depth=1, args="layer 1")
    spool.record(1, 41, "step", 1_000, 2_000, seq=1, parent=0, depth=0)
    spool.record(1, 43, "load", 1_200, 1_700, seq=1, parent=0, depth=0)
    spool.record(1, 43, "loader-0", 1_000, 1_000, kind=CONSTANTS["PLN_THREAD"])
    for frame, (kind, name, file, line) in enumerate(
        [
            ("python", "main", "train.py", 10),
            ("python", "matmul", "model.py", 20),
            ("native", "gemm", "", 0),
            ("native", "_PyEval_EvalFrameDefault", "", 0),
            ("native", "Py_RunMain", "", 0),
            ("kernel", "__schedule", "", 0),
            ("kernel", "futex_wait_queue", "", 0),
            ("native", "pthread_cond_wait", "", 0),
            ("python", "get", "queue.py", 171),
        ],
        start=100,
    ):
        module = "python3.11" if "Py" in name else ""
        spool.object("frame", id=frame, kind=kind, name=name, file=file, line=line, module=module)
    spool.object("stack", id=7, frames=[102, 103, 104, 101, 100])
    spool.object("stack", id=9, frames=[105, 106, 107, 103, 104, 108, 100])
    forward, load = spool.string(1, "forward"), spool.string(1, "load")
    for ts_ns in (1_150, 1_250):
        spool.sample("SAMPLE", 41, 41, ts_ns, ts_ns, stack=7, range_seq=2, range_name=forward, weight_ns=100, cpu=1)
    spool.sample(
        "SAMPLE", 41, 41, 1_950, 1_950, stack=7, range_seq=1, range_name=spool.string(1, "step"), weight_ns=100
    )
    spool.sample(
        "WAIT",
        41,
        43,
        1_300,
        1_600,
        stack=9,
        range_seq=1,
        range_name=load,
        weight_ns=20,
        state=1,
        waker_pid=41,
        waker_tid=41,
    )
    spool.object("loss", kind="ring_full", pid=41, tid=43, count=0)
    spool.object("end", end_ns=2_000, reason="finish", cost={"cpu_ns": 50, "wall_ns": 1_000, "rss_bytes": 1 << 20})
    return spool.to_bytes()


GEMM = "_Z4gemmIfEvPT_"  # void gemm<float>(float*)


def gpu_spool() -> SpoolWriter:
    """Two processes that launch kernels on two streams; see test_merge_gpu for what it must give.

    Process 41 has a step with an operator that launches two kernels and a copy, then launches a graph of three kernels
    outside all ranges; it begins to collect twice, and process 42 counts its calls alike.
    """
    spool = SpoolWriter()
    spool.object("meta", host="box", rate_hz=0, start_ns=1_000, realtime_offset_ns=0, collector="agent", pids=[41, 42])
    for pid, comm in ((41, "train"), (42, "eval")):
        spool.object("process", pid=pid, start_ns=500, comm=comm)
    spool.region(1, 41, 900)
    spool.region(2, 42, 900)
    spool.string(2, "so that the ids of strings differ")
    torch = CONSTANTS["PLN_SOURCE_TORCH"]
    spool.record(1, 41, "step", 1_000, 5_000, seq=1)
    spool.record(1, 41, "aten::mm", 1_100, 3_000, seq=2, parent=1, depth=1, source=torch, value=7)
    spool.call(1, 41, "cudaLaunchKernel", 1_200, 1_300, 5, seq=3, parent=2, depth=2)
    spool.call(1, 41, "cuLaunchKernel", 1_210, 1_290, 5, seq=4, parent=3, depth=3, scope=CONSTANTS["PLN_CUDA_DRIVER"])
    spool.call(1, 41, "cudaLaunchKernel", 1_400, 1_500, 6, seq=5, parent=2, depth=2)
    spool.call(1, 41, "cudaMemcpyAsync", 1_600, 1_700, 7, seq=6, parent=2, depth=2, args="invalid argument")
    spool.call(1, 41, "cudaGraphLaunch", 6_000, 6_100, 8, seq=7)
    spool.call(1, 41, "cudaLaunchKernel", 7_000, 7_100, 5, epoch=2, seq=8)
    spool.record(2, 42, "eval", 2_000, 4_000, seq=1)
    spool.call(2, 42, "cudaLaunchKernel", 2_100, 2_200, 5, seq=2, parent=1, depth=1)

    on_first = {"device": 0, "context": 1, "stream": 7}
    on_second = {**on_first, "stream": 13}
    shape = '{"grid": [2, 1, 1], "block": [32, 1, 1]}'
    spool.activity(1, 10, 1_350, 1_850, 5, name=GEMM, attributes=shape, **on_first)
    spool.activity(1, 10, 1_600, 2_300, 6, name="relu", **on_second)
    spool.activity(1, 1, 2_400, 2_500, 7, detail=1, value=4_096, **on_first)
    for start_ns in (6_200, 6_400, 6_600):
        spool.activity(1, 10, start_ns, start_ns + 110, 8, name="node", **on_first)
    spool.activity(1, 10, 7_200, 7_213, 5, epoch=2, name="late", **on_first)
    spool.activity(2, 10, 2_300, 2_317, 5, name=GEMM, **on_first)
    spool.object("end", end_ns=8_000, reason="finish", cost={})
    return spool
