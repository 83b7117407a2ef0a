"""A job full of other tools' annotations, of nvtx and ittapi from PyPI. It does not know Pillion.

Answer: {"names"}: name to how many of it, [domain, count].
"""

import threading

import ittapi
import nvtx

import handshake


def annotate(count: int) -> None:
    for step in range(count):
        with nvtx.annotate("outer"), nvtx.annotate("inner", domain="mine", category="cat", payload=step):
            pass


def main() -> None:
    args = handshake.parser(__doc__).parse_args()
    handshake.ready(args)
    annotate(101)
    thread = threading.Thread(target=annotate, args=(7,))
    thread.start()
    thread.join()
    nvtx.end_range(nvtx.start_range("started"))
    nvtx.mark("marked")
    nvtx.push_range("pushed")
    nvtx.pop_range()
    nvtx.pop_range()  # one too many
    for _ in range(103):
        with ittapi.task("task", domain="of itt"):
            pass
    handshake.answer(
        names={
            "outer": ["", 108],
            "inner": ["mine", 108],
            "started": ["", 1],
            "marked": ["", 1],
            "pushed": ["", 1],
            "task": ["of itt", 103],
        }
    )


if __name__ == "__main__":
    main()
