"""Two functions of one thread burn CPU 70:30.

Answer: {"seven_ns", "three_ns"}, the CPU time that each had, by the thread's CPU clock. They take turns in slices
of about 7 and 3 ms whose lengths vary, so that no sampling rate beats with them; a slice that ran too long is made up
for in the next, so the ratio is 7:3 to within a slice.
"""

import random
import time
from collections.abc import Callable

import handshake


def spin() -> int:
    """A few microseconds of bytecode between two looks at the clock."""
    total = 0
    for i in range(100):
        total += i * i
    return total


def burn_seven(until_ns: int) -> None:
    while time.thread_time_ns() < until_ns:
        spin()


def burn_three(until_ns: int) -> None:
    while time.thread_time_ns() < until_ns:
        spin()


def cpu_ns_of(burn: Callable[[int], None], cpu_ns: int) -> int:
    """The CPU time that burn took to burn at least cpu_ns."""
    start_ns = time.thread_time_ns()
    burn(start_ns + cpu_ns)
    return time.thread_time_ns() - start_ns


def main() -> None:
    parser = handshake.parser(__doc__)
    parser.add_argument("duration", type=float, nargs="?", default=3.0, help="seconds of wall time (default: 3)")
    args = parser.parse_args()
    handshake.ready(args)

    variation = random.Random(71)
    end = time.monotonic() + args.duration
    seven_due_ns = three_due_ns = seven_ns = three_ns = 0
    while time.monotonic() < end:
        slice_ns = int(1e6 * variation.uniform(0.5, 1.5))
        seven_due_ns += 7 * slice_ns
        three_due_ns += 3 * slice_ns
        seven_ns += cpu_ns_of(burn_seven, seven_due_ns - seven_ns)
        three_ns += cpu_ns_of(burn_three, three_due_ns - three_ns)
    handshake.answer(seven_ns=seven_ns, three_ns=three_ns)


if __name__ == "__main__":
    main()
