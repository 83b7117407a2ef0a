"""What a range costs the job on each way to the agent: rings (shared memory) and USDT probes (a trap each)."""

from __future__ import annotations

import statistics

import _agent

RANGES = 20_000
ROUNDS = 11


def main() -> None:
    with _agent.agent():
        job = _agent.Job()
        rounds: dict[str, list[float]] = {"not recorded": [], "rings": [], "usdt": []}
        for _ in range(ROUNDS):
            rounds["not recorded"].append(job.work(f"ranges {RANGES}") / RANGES)
            for transport in ("rings", "usdt"):
                with _agent.recorded(job.pid, rate_hz=0, transport=transport):
                    rounds[transport].append(job.work(f"ranges {RANGES}") / RANGES)
        job.close()
    medians = {name: statistics.median(values) for name, values in rounds.items()}
    for name, value in medians.items():
        print(f"with record_function, {name:<14}{value:>8.0f} ns")
    base = medians["not recorded"]
    ratio = (medians["usdt"] - base) / (medians["rings"] - base)
    print(f"recording a range through USDT costs {ratio:.1f} times what it costs through rings")


if __name__ == "__main__":
    main()
