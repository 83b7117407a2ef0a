"""Ranges that two probes of a library (usdt_provider.c) begin and end, in the range "outer" of record_function.

In each of 7 threads 13 times: work, an inner part in it, a step in that. Then, on the main thread: an end that nothing
began, a beginning whose end comes on another thread, a work whose inner part never ends. At last, on another thread, a
work that is open when the thread ends. Answer: {"threads", "rounds"}.
"""

import ctypes
import threading

import handshake
from pillion import record_function

THREADS, ROUNDS = 7, 13


def work(library: ctypes.CDLL, number: int) -> None:
    library.provider_work_start(number)
    library.provider_inner_begin()
    library.provider_step(ctypes.c_long(number))
    library.provider_inner_end()
    library.provider_work_done(-number)


def rounds(library: ctypes.CDLL) -> None:
    with record_function("outer"):
        for number in range(ROUNDS):
            work(library, number)


def in_thread(function: object, *args: object) -> None:
    thread = threading.Thread(target=function, args=args)
    thread.start()
    thread.join()


def main() -> None:
    parser = handshake.parser(__doc__)
    parser.add_argument("library")
    args = parser.parse_args()
    library = ctypes.CDLL(args.library)
    with record_function("first"):
        pass  # makes the region: who records later knows of it from the beginning
    handshake.ready(args)

    threads = [threading.Thread(target=rounds, args=(library,)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    library.provider_inner_end()
    library.provider_work_start(1001)
    in_thread(library.provider_work_done, 1002)
    library.provider_inner_begin()
    library.provider_work_done(1003)
    in_thread(library.provider_work_start, 1004)
    handshake.answer(threads=THREADS, rounds=ROUNDS)


if __name__ == "__main__":
    main()
