"""A spool of a million calls and a million kernels to tables: seconds, and the peak of memory beyond the spool.

python tests/bench/merge_gpu.py [KERNELS]     in a process of its own, whose imports are not counted
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from import_kineto import memory_mb

from pillion.merge import merge
from pillion.merge.spool import ACTIVITY_DTYPE, BLOCK_DTYPE, RANGE_DTYPE, Spool, read_spool
from pillion_probes.layout import CONSTANTS

_NAMES = [f"_Z{len(name)}{name}IfEvPT_" for name in (f"kernel_{number:02}" for number in range(50))]
_STREAMS = 4
_BATCH = 20_000  # a thread's ring is drained, then the buffer of its kernels


def write_spool(path: Path, count: int) -> None:
    """A thread that launches kernels in ranges of ten launches."""
    log = bytearray(8)
    ids = []
    for text in ("step", "cudaLaunchKernel", '{"grid": [2, 1, 1], "block": [32, 1, 1]}', *_NAMES):
        ids.append(len(log) // 8)
        log += len(text).to_bytes(4, "little") + bytes(4) + text.encode() + bytes(-len(text) % 8)
    with open(path, "wb") as file:
        _write(file, "STRINGS", bytes(log))
        for begin in range(0, count, _BATCH):
            number = np.arange(begin, min(begin + _BATCH, count))
            _write(file, "RECORDS", _host(number, ids).tobytes())
            _write(file, "RECORDS", _work(number, ids).tobytes())


def _write(file, kind: str, payload: bytes) -> None:  # type: ignore[no-untyped-def]
    header = np.zeros(1, BLOCK_DTYPE)
    header["magic"], header["version"] = CONSTANTS["PLN_BLOCK_MAGIC"], CONSTANTS["PLN_VERSION"]
    header["kind"], header["length"] = CONSTANTS[f"PLN_BLOCK_{kind}"], len(payload)
    header["pid"], header["region"] = 41, 1
    file.write(header.tobytes() + payload)


def _host(number: np.ndarray, ids: list[int]) -> np.ndarray:  # type: ignore[type-arg]
    calls = np.zeros(len(number), RANGE_DTYPE)
    calls["kind"], calls["source"] = CONSTANTS["PLN_RANGE"], CONSTANTS["PLN_SOURCE_CUDA"]
    calls["tid"] = calls["end_tid"] = 41
    calls["start_ns"], calls["end_ns"] = 10_000 + number * 5_000, 12_000 + number * 5_000
    calls["name"], calls["depth"] = ids[1], 1
    step = number // 10
    calls["seq"], calls["parent"] = 2 + number + step, 1 + step * 11
    calls["value"] = (1 << 32) + 1 + number
    steps = calls[::10].copy()
    steps["source"], steps["value"], steps["name"] = 0, 0, ids[0]
    steps["start_ns"], steps["end_ns"] = steps["start_ns"] - 100, steps["start_ns"] + 50_000 - 200
    steps["seq"], steps["parent"], steps["depth"] = steps["parent"], 0, 0
    return np.concatenate([calls, steps])


def _work(number: np.ndarray, ids: list[int]) -> np.ndarray:  # type: ignore[type-arg]
    work = np.zeros(len(number), ACTIVITY_DTYPE)
    work["kind"], work["activity"] = CONSTANTS["PLN_ACTIVITY"], 10
    work["start_ns"], work["end_ns"] = 13_000 + number * 5_000, 16_500 + number * 5_000
    work["name"], work["attributes"] = np.array(ids[3:])[number % len(_NAMES)], ids[2]
    work["correlation"], work["epoch"] = 1 + number, 1
    work["stream"], work["context"] = number % _STREAMS, 1
    return work


def measure(path: Path) -> None:
    merge(Spool())  # loads what every process has to load
    spool = read_spool(path)
    Path("/proc/self/clear_refs").write_text("5")  # a process begins with its parent's peak
    before_mb = memory_mb("VmRSS")
    begin, cpu_s = time.perf_counter(), _cpu_s()
    tables, _ = merge(spool)
    seconds, cpu_s = time.perf_counter() - begin, _cpu_s() - cpu_s
    peak_mb = memory_mb("VmHWM") - before_mb
    assert (tables["activities"]["launch"] >= 0).all()
    print(f"merge of the spool     {seconds:6.3f} s   {cpu_s:6.3f} s of CPU   peak +{peak_mb:.0f} MB")


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    kernels = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gpu.spool"
        write_spool(path, kernels)
        print(f"{kernels:,} calls and {kernels:,} kernels, {path.stat().st_size / 1e6:.0f} MB")
        for _ in range(3):
            subprocess.run([sys.executable, __file__, "--measure", str(path)], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]))
    else:
        main()
