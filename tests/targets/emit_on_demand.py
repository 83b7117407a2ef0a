"""N ranges "counted" for every line on stdin, until stdin is closed.

Answer: {"ranges"}: how many in all.
"""

import sys

import handshake
from pillion import record_function


def main() -> None:
    parser = handshake.parser(__doc__)
    parser.add_argument("ranges", type=int, nargs="?", default=10_007, help="how many for a line (default: 10,007)")
    args = parser.parse_args()
    handshake.ready(args)

    total = 0
    while sys.stdin.readline():
        for _ in range(args.ranges):
            with record_function("counted"):
                pass
        total += args.ranges
    handshake.answer(ranges=total)


if __name__ == "__main__":
    main()
