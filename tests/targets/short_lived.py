"""Many children, one after the other, each of which emits K ranges "brief" and is gone at once.

Children are forks; with --exec each is a Python of its own, which imports the library anew.
Answer: {"children", "ranges"}: how many, and the ranges of all together.
"""

import argparse
import os
import subprocess
import sys

import handshake
from pillion import record_function


def emit(count: int) -> None:
    for _ in range(count):
        with record_function("brief"):
            pass


def run_forked(count: int) -> None:
    pid = os.fork()
    if pid == 0:
        emit(count)
        os._exit(0)
    os.waitpid(pid, 0)


def run_executed(count: int) -> None:
    subprocess.run([sys.executable, __file__, "--child", str(count)], check=True)


def main() -> None:
    parser = handshake.parser(__doc__)
    parser.add_argument("children", type=int, nargs="?", default=53, help="how many (default: 53)")
    parser.add_argument("ranges", type=int, nargs="?", default=17, help="ranges of each child (default: 17)")
    parser.add_argument("--exec", action="store_true", help="start each child as a new program")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        emit(args.child)
        return

    handshake.ready(args)
    run = run_executed if args.exec else run_forked
    for _ in range(args.children):
        run(args.ranges)
    handshake.answer(children=args.children, ranges=args.children * args.ranges)


if __name__ == "__main__":
    main()
