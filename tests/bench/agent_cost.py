"""What recording costs: the job's slowdown in paired runs, the agent's CPU time and memory.

The pairs alternate, recorded first or second in turn, so that a drift of the machine's speed cancels; the figure is the
median of the pairs' ratios. "null" pairs two unrecorded runs: how far from 1 the machine itself is.
"""

from __future__ import annotations

import statistics
import time
from contextlib import AbstractContextManager, nullcontext

import _agent

PAIRS = 21
BUSY_S = 20.0


def _ratio(job: _agent.Job, pair: int, recorded: bool) -> float:
    def unit(record: bool) -> int:
        context: AbstractContextManager[None] = _agent.recorded(job.pid) if record else nullcontext()
        with context:
            return job.work()

    if pair % 2:
        first = unit(recorded)
        return first / unit(False)
    second = unit(False)
    return unit(recorded) / second


def slowdown() -> None:
    job = _agent.Job()
    ratios: dict[bool, list[float]] = {True: [], False: []}
    for pair in range(PAIRS):
        for recorded in ratios:
            ratios[recorded].append(_ratio(job, pair, recorded))
    job.close()
    for recorded, values in ratios.items():
        name = "sampled at 99 Hz with stacks" if recorded else "null (not recorded)"
        print(f"slowdown of a CPU-bound job, {name:<30}{(statistics.median(values) - 1) * 100:>7.2f} %")


def agent_while_two_cpus_are_busy() -> None:
    jobs = [_agent.Job() for _ in range(2)]
    with _agent.recorded(*(job.pid for job in jobs)):
        before, began = _agent.status(), time.monotonic()
        while time.monotonic() - began < BUSY_S:
            for job in jobs:
                job.begin()
            for job in jobs:
                job.end()
        after, ended = _agent.status(), time.monotonic()
    for job in jobs:
        job.close()
    cpu = (after["cpu_ns"] - before["cpu_ns"]) / 1e9 / (ended - began)
    memory = after["rss_bytes"] / 1e6
    print(f"agent while it samples 2 busy CPUs at 99 Hz: {cpu * 100:.2f} % of one CPU, {memory:.0f} MB")


def main() -> None:
    with _agent.agent():
        slowdown()
        agent_while_two_cpus_are_busy()


if __name__ == "__main__":
    main()
