"""A parent and its forked children emit ranges: 7 "parent" before the forks, 7 after them, K "child" in each child.

Answer: {"parent", "child", "pids"}: 14, K times the number of children, and the pids of the children.
"""

import os

import handshake
from pillion import record_function

PARENT_RANGES = 7


def emit(name: str, count: int) -> None:
    for _ in range(count):
        with record_function(name):
            pass


def main() -> None:
    parser = handshake.parser(__doc__)
    parser.add_argument("children", type=int, nargs="?", default=3, help="how many (default: 3)")
    parser.add_argument("ranges", type=int, nargs="?", default=101, help="ranges of each child (default: 101)")
    args = parser.parse_args()
    handshake.ready(args)

    emit("parent", PARENT_RANGES)
    pids = []
    for _ in range(args.children):
        pid = os.fork()
        if pid == 0:
            emit("child", args.ranges)
            os._exit(0)
        pids.append(pid)
    emit("parent", PARENT_RANGES)
    for pid in pids:
        os.waitpid(pid, 0)
    handshake.answer(parent=2 * PARENT_RANGES, child=args.children * args.ranges, pids=pids)


if __name__ == "__main__":
    main()
