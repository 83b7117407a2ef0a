"""Runs additions of torch in two recordings of the process by itself, and some in no recording.

Answer: {"counts"}: of additions recorded in each.
"""

import os

import handshake

os.environ["KINETO_LOG_LEVEL"] = "6"
import torch

import pillion
from pillion._native import ffi, lib

NAME = "aten::add_"


def recorded(additions: int) -> int:
    with pillion.profile() as profile:
        add(additions)
    names = profile.capture.columns["strings"]["text"]
    return sum(names[row] == NAME for row in profile.capture.columns["events"]["name"].tolist())


def add(additions: int) -> None:
    value = torch.ones(1)
    for _ in range(additions):
        value.add_(value)


def main() -> None:
    args = handshake.parser(__doc__).parse_args()
    handshake.ready(args)
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so").encode()
    assert lib.pln_torch_start(path, ffi.new("char const **")) == 0
    first = recorded(11)
    add(3)
    handshake.answer(counts=[first, recorded(7)])


if __name__ == "__main__":
    main()
