"""What a probe that the user named costs who passes it, and what the stack of a launch costs."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from pathlib import Path

import _agent

import pillion
from pillion._probes import ProbeChoice

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
COUNT = 5_000
ROUNDS = 11


class Program:
    """usdt_hits.c, running."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen([str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid

    def ns_each(self, what: str) -> float:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{what} {COUNT}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def build(directory: str) -> Path:
    program = Path(directory, "usdt_hits")
    library = Path(pillion.__file__).with_name("libpillion.so")
    paths = [f"-I{ROOT / 'cffi_build' / 'include'}", f"-I{ROOT / 'probes'}"]
    libraries = [str(library), f"-Wl,-rpath,{library.parent}"]
    flags = ["-O2", "-fno-omit-frame-pointer"]
    subprocess.run(["gcc", *flags, *paths, "-o", str(program), str(HERE / "usdt_hits.c"), *libraries], check=True)
    return program


def main() -> None:
    found: dict[str, list[float]] = {}
    cpu_ns = 0
    with _agent.agent(), tempfile.TemporaryDirectory() as directory:
        path = build(directory)
        mine, others = Program(path), Program(path)
        probe = ProbeChoice(str(path), "bench", "hit")
        for _ in range(ROUNDS):
            found.setdefault("a probe, not traced", []).append(mine.ns_each("hits"))
            cpu_ns -= _agent.status()["cpu_ns"]
            with _agent.recorded(mine.pid, rate_hz=0, probes=(probe,)):
                found.setdefault("a probe, recorded", []).append(mine.ns_each("hits"))
                found.setdefault("a probe, of a process that is not recorded", []).append(others.ns_each("hits"))
            cpu_ns += _agent.status()["cpu_ns"]
            with _agent.recorded(mine.pid, rate_hz=0):
                base = mine.ns_each("ranges")
                found.setdefault("a launch, without stacks", []).append(mine.ns_each("launches") - base)
            with _agent.recorded(mine.pid, rate_hz=0, launch_stacks=True):
                base = mine.ns_each("ranges")
                found.setdefault("a launch, with its stack", []).append(mine.ns_each("launches") - base)
        mine.close()
        others.close()
    for name, values in found.items():
        print(f"{name:<44}{statistics.median(values):>8.0f} ns")
    print(f"the agent's CPU time for a hit, sessions and all{cpu_ns / ROUNDS / COUNT:>12.0f} ns")


if __name__ == "__main__":
    main()
