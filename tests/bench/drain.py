"""How many records a second one core drains, and whether a job that makes 5,000,000 of them loses any.

The drain is the agent's: every 2 ms, as it does while rings fill, into a file. Its capacity is what it would move if it
did nothing else: records by its own CPU time.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

import _c_program

from pillion._native import ffi, lib
from pillion_agent.procfs import find_regions

RATES = (1_000_000, 5_000_000)
SECONDS = 2
PAUSE_S = 0.002


def drained(program: Path, rate: int) -> str:
    job = subprocess.Popen(
        [str(program), str(rate), str(SECONDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert job.stdin
    assert job.stdout
    job.stdout.readline()
    fd = os.open(find_regions(job.pid)[0], os.O_RDWR)
    reader = lib.pln_reader_open(fd, job.pid, 1, ffi.new("int *"))
    assert lib.pln_reader_begin(reader, lib.PLN_CONSUMER_AGENT) == 0
    spool = os.memfd_create("spool")
    sink = ffi.new("struct pln_sink *", {"fd": spool})
    sinks = ffi.new("struct pln_sink *[]", [sink])
    job.stdin.write("\n")
    job.stdin.flush()
    cpu_s = 0.0
    while job.poll() is None:
        start_s = time.thread_time()
        lib.pln_reader_drain(reader, sinks, 1)
        cpu_s += time.thread_time() - start_s
        time.sleep(PAUSE_S)
    lib.pln_reader_end(reader, sinks, 1)
    made, took_s = job.stdout.read().split()
    losses = ffi.new("struct pln_loss[]", 8)
    lost = sum(losses[i].count for i in range(lib.pln_reader_losses(reader, losses, 8)))
    lib.pln_reader_close(reader)
    os.close(spool)
    os.close(fd)
    thread_record = 1
    assert sink.records + lost == int(made) + thread_record
    made_per_s, share = int(made) / float(took_s), cpu_s / float(took_s)
    return (
        f"{made_per_s / 1e6:.2f} million records a second: {lost:,} of {int(made):,} lost; "
        f"drained in {100 * share:.0f} % of a core, which could do {sink.records / cpu_s / 1e6:.0f} million"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        program = _c_program.build("paced_ranges", Path(directory))
        for rate in RATES:
            print(drained(program, rate))


if __name__ == "__main__":
    main()
