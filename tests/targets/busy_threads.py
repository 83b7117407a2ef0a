"""A few threads, each busy in a function of its own: spin_0, spin_1, …

Ready says {"tids"}: the kernel's thread ids, in that order; each thread waits in its function for the word to begin.
Answer: {"cpu_ns"}: the CPU time of each thread from then on.
"""

import threading
import time
from collections.abc import Callable

import handshake


def spin(until: float) -> None:
    while time.monotonic() < until:
        sum(i * i for i in range(200))


def named(index: int) -> Callable[[float], None]:
    """A copy of spin that profilers see as another function."""
    name = f"spin_{index}"
    code = spin.__code__.replace(co_name=name)
    if hasattr(code, "co_qualname"):
        code = code.replace(co_qualname=name)
    return type(spin)(code, globals(), name)


def main() -> None:
    parser = handshake.parser(__doc__)
    parser.add_argument("threads", type=int, nargs="?", default=3, help="how many (default: 3)")
    parser.add_argument("duration", type=float, nargs="?", default=2.0, help="seconds of wall time (default: 2)")
    args = parser.parse_args()

    tids = [0] * args.threads
    cpu_ns = [0] * args.threads
    started = threading.Barrier(args.threads + 1)
    begin = threading.Event()

    def work(index: int) -> None:
        function = named(index)
        tids[index] = threading.get_native_id()
        started.wait()
        begin.wait()
        start_ns = time.thread_time_ns()
        function(time.monotonic() + args.duration)
        cpu_ns[index] = time.thread_time_ns() - start_ns

    threads = [threading.Thread(target=work, args=(index,), name=f"busy-{index}") for index in range(args.threads)]
    for thread in threads:
        thread.start()
    started.wait()
    handshake.ready(args, tids=tids)
    begin.set()
    for thread in threads:
        thread.join()
    handshake.answer(cpu_ns=cpu_ns)


if __name__ == "__main__":
    main()
