"""One thread burns CPU and sleeps in turn.

Answer: {"tid", "wall_ns", "cpu_ns", "asleep_ns"}: of that thread from its first to its last action, by CLOCK_MONOTONIC
and by its CPU clock; asleep_ns is the part of the wall time spent in time.sleep. Off-CPU time is wall_ns - cpu_ns.
"""

import threading
import time

import handshake


def burn(cpu_ns: int) -> None:
    until_ns = time.thread_time_ns() + cpu_ns
    while time.thread_time_ns() < until_ns:
        sum(i * i for i in range(100))


def nap(seconds: float) -> int:
    start_ns = time.monotonic_ns()
    time.sleep(seconds)
    return time.monotonic_ns() - start_ns


def main() -> None:
    parser = handshake.parser(__doc__)
    parser.add_argument("duration", type=float, nargs="?", default=2.0, help="seconds of wall time (default: 2)")
    args = parser.parse_args()
    measured: dict[str, int] = {}

    def work() -> None:
        start_ns, start_cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        end_ns = start_ns + int(args.duration * 1e9)
        asleep_ns = 0
        while time.monotonic_ns() < end_ns:
            burn(11_000_000)
            asleep_ns += nap(0.007)
        measured.update(
            tid=threading.get_native_id(),
            wall_ns=time.monotonic_ns() - start_ns,
            cpu_ns=time.thread_time_ns() - start_cpu_ns,
            asleep_ns=asleep_ns,
        )

    handshake.ready(args)
    thread = threading.Thread(target=work, name="burn-and-wait")
    thread.start()
    thread.join()
    handshake.answer(**measured)


if __name__ == "__main__":
    main()
