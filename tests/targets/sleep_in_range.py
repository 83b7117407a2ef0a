"""A range "nap" around time.sleep(0.2), a number of times, inside one range "night".

Answer: {"naps", "nap_ns"}: how many, and the wall time that they took together, each measured just inside its range.
The thread does nothing else there, so it is the off-CPU time of "nap" but for microseconds.
"""

import time

import handshake
from pillion import record_function

NAP_S = 0.2


def main() -> None:
    parser = handshake.parser(__doc__)
    parser.add_argument("naps", type=int, nargs="?", default=5, help="how many naps (default: 5)")
    args = parser.parse_args()
    handshake.ready(args)

    nap_ns = 0
    with record_function("night"):
        for _ in range(args.naps):
            with record_function("nap"):
                start_ns = time.monotonic_ns()
                time.sleep(NAP_S)
                nap_ns += time.monotonic_ns() - start_ns
    handshake.answer(naps=args.naps, nap_ns=nap_ns)


if __name__ == "__main__":
    main()
