"""A small PyTorch training job with DataLoader workers that knows nothing of Pillion; trains until it is told to stop.

Ready, after the first step, says {"workers"}: the pids of the DataLoader workers. It stops when its stdin closes, on
SIGTERM, or after --steps. Answer: {"steps"}: how many it made.
The functions to find: augment (in the workers), train_step (in the main process).
"""

import multiprocessing
import select
import signal
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import handshake


class Noise(Dataset[tuple[torch.Tensor, int]]):
    """Random images; making one costs about a millisecond of Python."""

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return augment(torch.rand(3, 16, 16), index), index % 10


def augment(image: torch.Tensor, index: int) -> torch.Tensor:
    scale = sum((index * i) % 7 for i in range(5000)) / 15000
    return image.flip(-1) * scale if index % 2 else image


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


def main() -> None:
    parser = handshake.parser(__doc__)
    parser.add_argument("--workers", type=int, default=2, help="DataLoader workers (default: 2)")
    parser.add_argument("--steps", type=int, help="stop after this many, whatever stdin does")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    steps = 0
    for images, labels in DataLoader(Noise(), batch_size=16, num_workers=args.workers):
        train_step(model, optimizer, images, labels)
        steps += 1
        if steps == 1:
            handshake.ready(args, workers=sorted(child.pid for child in multiprocessing.active_children()))
        closed = args.steps is None and select.select([sys.stdin], [], [], 0)[0]
        if stopping or closed or steps == args.steps:
            break
    handshake.answer(steps=steps)


if __name__ == "__main__":
    main()
