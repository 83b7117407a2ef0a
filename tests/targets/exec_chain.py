"""A process that emits K ranges "link" and then becomes itself again by exec, some times over: one pid, many programs.

Answer: {"links", "ranges"}: how many programs ran, and the ranges of all together.
"""

import argparse
import os
import sys

import handshake
from pillion import record_function


def main() -> None:
    parser = handshake.parser(__doc__)
    parser.add_argument("links", type=int, nargs="?", default=3, help="how many programs (default: 3)")
    parser.add_argument("ranges", type=int, nargs="?", default=11, help="ranges of each (default: 11)")
    parser.add_argument("--link", type=int, default=1, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.link == 1:
        handshake.ready(args)

    for _ in range(args.ranges):
        with record_function("link"):
            pass
    if args.link < args.links:
        numbers = [str(number) for number in (args.links, args.ranges)]
        os.execv(sys.executable, [sys.executable, __file__, *numbers, "--link", str(args.link + 1)])
    handshake.answer(links=args.links, ranges=args.links * args.ranges)


if __name__ == "__main__":
    main()
