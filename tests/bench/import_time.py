"""``import pillion`` in a fresh interpreter, next to one that imports nothing; and what it loads."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 15
HEAVY = ("torch", "bcc", "pynvml", "pyarrow", "numpy")


def _seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def main() -> None:
    pairs = [(_seconds("import pillion"), _seconds("pass")) for _ in range(ROUNDS)]
    print(f"import pillion: {statistics.median(with_ - without for with_, without in pairs) * 1e3:.1f} ms")
    code = f"import sys, pillion; print([name for name in {HEAVY} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    print(f"of {', '.join(HEAVY)} it loads: {loaded.strip()}")


if __name__ == "__main__":
    main()
