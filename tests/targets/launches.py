"""101 calls that launch work, as a collector of a device's work announces them: the probe "launch" in an open range.

Answer: {"launches": 101, "seqs"}: the numbers of their ranges.
"""

import handshake
from pillion import record_function
from pillion._native import ffi, lib

LAUNCHES = 101


def launch_here(name: int) -> int:
    token = ffi.new("struct pln_token *")
    lib.pln_begin(token, name, 0, lib.PLN_SOURCE_CUDA)
    lib.pln_probe_launch(token.range.seq, name)
    lib.pln_end(token)
    return int(token.range.seq)


def main() -> None:
    args = handshake.parser(__doc__).parse_args()
    handshake.ready(args)

    name = lib.pln_intern(b"cudaLaunchKernel", 16)
    seqs = []
    for _ in range(LAUNCHES):
        with record_function("step"):
            seqs.append(launch_here(name))
    handshake.answer(launches=LAUNCHES, seqs=seqs)


if __name__ == "__main__":
    main()
