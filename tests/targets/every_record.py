"""101 ranges "named" with the args "of 101 …", long ones, and 103 marks "moment" with the values 0 to 102.

Answer: {"args"}: the text.
"""

import handshake
from pillion import record_function
from pillion._native import lib

ARGS = "of 101 " + "é" * 700


def main() -> None:
    args = handshake.parser(__doc__).parse_args()
    handshake.ready(args)

    for _ in range(101):
        with record_function("named", ARGS):
            pass
    moment = lib.pln_intern(b"moment", 6)
    for value in range(103):
        lib.pln_mark(moment, 0, lib.PLN_SOURCE_C, value, 0)
    handshake.answer(args=ARGS)


if __name__ == "__main__":
    main()
