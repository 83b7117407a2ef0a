"""Loads 101 items through two worker processes, each item one logarithm.

Answer: {"pid"}: of the process that has none.
"""

import os

import torch
from torch.utils.data import DataLoader, Dataset

import handshake

ITEMS = 101


class Logarithms(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.log(torch.full((3,), index + 1.0))


def main() -> None:
    args = handshake.parser(__doc__).parse_args()
    handshake.ready(args)
    assert sum(len(batch) for batch in DataLoader(Logarithms(), batch_size=7, num_workers=2)) == ITEMS
    handshake.answer(pid=os.getpid())


if __name__ == "__main__":
    main()
