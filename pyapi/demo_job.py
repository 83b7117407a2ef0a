"""A plain Python job for ``pillion demo``: two functions that burn, a loader thread that sleeps, ranges around them.

Run it with ``python -m pillion.demo_job``. It does a fixed amount of work, some seconds of it.
"""

from __future__ import annotations

import queue
import threading
import time

from pillion._record import record_function

BATCHES = 40
READ_S = 0.1


def tokenize(rounds: int) -> int:
    """The heavier of the two burners: seven parts of ten."""
    total = 0
    for number in range(7 * rounds):
        total += number * number % 7
    return total


def score(rounds: int) -> int:
    """Three parts of ten."""
    total = 0
    for number in range(3 * rounds):
        total += number * number % 7
    return total


def load(batches: queue.Queue[int | None]) -> None:
    """Reads slowly, so that the main thread waits for it."""
    for batch in range(BATCHES):
        with record_function("read"):
            time.sleep(READ_S)
        batches.put(batch)
    batches.put(None)


def main() -> None:
    batches: queue.Queue[int | None] = queue.Queue(maxsize=2)
    threading.Thread(target=load, args=(batches,), name="loader").start()
    while True:
        with record_function("next batch"):
            batch = batches.get()
        if batch is None:
            break
        with record_function("batch"):
            with record_function("tokenize"):
                tokenize(80_000)
            with record_function("score"):
                score(80_000)
    print(f"demo job: {BATCHES} batches done")


if __name__ == "__main__":
    main()
