"""A process whose second thread calls exec while the main one waits: the program that follows emits ranges "after".

Answer: {"ranges"}: how many.
"""

import os
import sys
import threading

import handshake
from pillion import record_function

RANGES = 13


def main() -> None:
    parser = handshake.parser(__doc__)
    parser.add_argument("--second", action="store_true", help="the program that follows")
    args = parser.parse_args()
    if args.second:
        for _ in range(RANGES):
            with record_function("after"):
                pass
        handshake.answer(ranges=RANGES)
        return
    handshake.ready(args)
    command = [sys.executable, __file__, "--second"]
    threading.Thread(target=os.execv, args=(sys.executable, command)).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
