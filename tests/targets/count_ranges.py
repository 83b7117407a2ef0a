"""Exactly N ranges "counted", as fast as Python goes.

Answer: {"ranges"}: N. With a ring that is large enough all are delivered; with one that is too small (set
PILLION_RING_RECORDS) delivered + lost is N. With --threads T each thread emits N of them, and the answer is N * T.
"""

import threading

import handshake
from pillion import record_function


def emit(count: int) -> None:
    for _ in range(count):
        with record_function("counted"):
            pass


def main() -> None:
    parser = handshake.parser(__doc__)
    parser.add_argument("ranges", type=int, nargs="?", default=1_000_003, help="how many (default: 1,000,003)")
    parser.add_argument("--threads", type=int, default=0, help="emit from this many threads, not from the main one")
    args = parser.parse_args()
    handshake.ready(args)

    threads = [threading.Thread(target=emit, args=(args.ranges,)) for _ in range(args.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not threads:
        emit(args.ranges)
    handshake.answer(ranges=args.ranges * max(1, args.threads))


if __name__ == "__main__":
    main()
