"""Producers, a queue, consumers: plain Python threads that compute, wait and write, without PyTorch.

    pillion run -- python examples/pipeline.py

Producers fetch documents from a slow "network" (a sleep), consumers tokenize and count words, and a writer appends the
results to a file. The profile shows who computes, who waits for the queue and who waits for the interpreter lock.
"""

import argparse
import json
import os
import queue
import random
import re
import tempfile
import threading
import time
from collections import Counter
from contextlib import nullcontext
from itertools import pairwise

try:
    from pillion import record_function
except ImportError:

    def record_function(name: str) -> nullcontext:
        return nullcontext()


WORDS = ["range", "ring", "record", "sample", "stack", "wait", "clock", "region", "spool", "agent", "kernel", "thread"]
DONE = None


def fetch(source: random.Random) -> str:
    """One document, after the time that a server would take."""
    with record_function("fetch"):
        time.sleep(source.uniform(0.005, 0.025))
        with record_function("decode"):
            return " ".join(source.choices(WORDS, k=20_000))


def produce(seed: int, count: int, documents: queue.Queue[str | None]) -> None:
    source = random.Random(seed)
    for _ in range(count):
        document = fetch(source)
        with record_function("enqueue"):
            documents.put(document)


def tokenize(document: str) -> list[str]:
    with record_function("tokenize"):
        return [token.lower().rstrip("s") for token in re.findall(r"\w+", document)]


def rank(tokens: list[str]) -> list[tuple[str, int]]:
    """The most frequent pairs of neighbours."""
    with record_function("rank"):
        return Counter(f"{left} {right}" for left, right in pairwise(tokens)).most_common(10)


def consume(documents: queue.Queue[str | None], results: queue.Queue[object]) -> None:
    while True:
        with record_function("dequeue"):
            document = documents.get()
        if document is DONE:
            return
        with record_function("document"):
            results.put(rank(tokenize(document)))


def write(path: str, results: queue.Queue[object]) -> int:
    """Append results to the file, safely on the disk after each; returns how many there were."""
    written = 0
    with open(path, "w", encoding="utf-8") as file:
        while (result := results.get()) is not DONE:
            with record_function("write"):
                file.write(json.dumps(result) + "\n")
                file.flush()
                os.fsync(file.fileno())
            written += 1
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=320, help="how many in all (default: %(default)s)")
    parser.add_argument("--producers", type=int, default=2, help="threads that fetch (default: %(default)s)")
    parser.add_argument("--consumers", type=int, default=2, help="threads that compute (default: %(default)s)")
    args = parser.parse_args()

    documents: queue.Queue[str | None] = queue.Queue(maxsize=4)
    results: queue.Queue[object] = queue.Queue()
    shares = [len(range(i, args.documents, args.producers)) for i in range(args.producers)]
    producers = [
        threading.Thread(target=produce, args=(seed, count, documents), name=f"producer-{seed}")
        for seed, count in enumerate(shares)
    ]
    consumers = [
        threading.Thread(target=consume, args=(documents, results), name=f"consumer-{i}") for i in range(args.consumers)
    ]

    def close() -> None:
        """Once the producers are through, tell the consumers; once those are, tell the writer."""
        for thread in producers:
            thread.join()
        for _ in consumers:
            documents.put(DONE)
        for thread in consumers:
            thread.join()
        results.put(DONE)

    began = time.monotonic()
    for thread in [*producers, *consumers, threading.Thread(target=close, name="closer")]:
        thread.start()
    with tempfile.TemporaryDirectory() as scratch:
        written = write(os.path.join(scratch, "pairs.jsonl"), results)
    print(f"{written} documents in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
