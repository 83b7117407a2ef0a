"""Hits the probe "step" of a library (usdt_provider.c), which is loaded only after the word to begin.

Steps 101 times itself, 103 times in a fork, 107 times in a process that is executed, each once the probe's semaphore is
up. Answer: {"steps": 311, "pids", "semaphore": 1}: what it was at the end. With --untraced nobody waits for it.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import time

import handshake

TIMEOUT_S = 60


def load(args: argparse.Namespace) -> ctypes.CDLL:
    library = ctypes.CDLL(args.library)
    deadline_s = time.monotonic() + TIMEOUT_S
    while not args.untraced and not library.provider_traced():
        os.sched_yield()
        assert time.monotonic() < deadline_s, "nobody traces"
    return library


def step(library: ctypes.CDLL, count: int) -> None:
    for number in range(count):
        library.provider_step(ctypes.c_long(number))


def main() -> None:
    parser = handshake.parser(__doc__)
    parser.add_argument("library")
    parser.add_argument("--untraced", action="store_true")
    parser.add_argument("--steps", type=int, default=101, help="of its own (default: 101)")
    parser.add_argument("--alone", action="store_true", help="without other processes")
    parser.add_argument("--only", type=int, help="nothing but these steps; for the process that is executed")
    args = parser.parse_args()
    if args.only:
        step(load(args), args.only)
        return
    handshake.ready(args)
    library = load(args)
    step(library, args.steps)
    if args.alone:
        handshake.answer(steps=args.steps, semaphore=library.provider_traced())
        return
    child = os.fork()
    if child == 0:
        step(library, 103)
        os._exit(0)
    os.waitpid(child, 0)
    flags = ["--untraced"] if args.untraced else []
    with subprocess.Popen([sys.executable, __file__, args.library, "--only", "107", *flags]) as other:
        other.wait()
    handshake.answer(
        steps=args.steps + 103 + 107, pids=[os.getpid(), child, other.pid], semaphore=library.provider_traced()
    )


if __name__ == "__main__":
    main()
