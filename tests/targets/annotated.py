"""A job full of other tools' annotations, of nvtx and ittapi from PyPI. It does not know Pillion.

Answer: {"names"}: name to how many of it, [domain, count]; {"attributes"}: name to what its events say besides.
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

    def work() -> None:
        ittapi.thread_set_name("named by itt")
        annotate(7)

    thread = threading.Thread(target=work)
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
    nvtx.mark("priced", domain="shop", category="sale", payload=-0.25)
    with nvtx.annotate("owed", domain="shop", category=5, payload=-7):
        pass
    with ittapi.task("overlapping", domain="of itt", overlapped=True):
        pass
    handshake.answer(
        attributes={
            "inner": [{"category": "cat"}],
            "priced": [{"category": "sale", "payload": -0.25}],
            "owed": [{"category": 5, "payload": -7}],
        },
        names={
            "outer": ["", 108],
            "inner": ["mine", 108],
            "started": ["", 1],
            "marked": ["", 1],
            "pushed": ["", 1],
            "task": ["of itt", 103],
            "priced": ["shop", 1],
            "owed": ["shop", 1],
            "overlapping": ["of itt", 1],
        },
    )


if __name__ == "__main__":
    main()
