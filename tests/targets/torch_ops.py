"""A few training steps on fixed data, of whose operators torch's own profiler says the truth.

With --truth it profiles itself by torch.autograd.profiler. Answer: {"names", "shapes"}: count of each operator, and of
each with the shapes of its inputs, {} without --truth.
"""

import os
from collections import Counter

import handshake

os.environ["KINETO_LOG_LEVEL"] = "6"
import torch
from torch import nn


def train(steps: int) -> None:
    torch.manual_seed(71)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 36, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    inputs, labels = torch.randn(7, 1, 8, 8), torch.randint(5, (7,))
    for _ in range(steps):
        with torch.autograd.profiler.record_function("a step"):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()


def main() -> None:
    parser = handshake.parser(__doc__)
    parser.add_argument("--truth", action="store_true")
    args = parser.parse_args()
    handshake.ready(args)
    names: Counter[str] = Counter()
    shapes: Counter[str] = Counter()
    if args.truth:
        with torch.autograd.profiler.profile(record_shapes=True) as profile:
            train(11)
        names.update(event.name for event in profile.function_events)
        shapes.update(f"{event.name} {event.input_shapes}" for event in profile.function_events)
    else:
        train(11)
    handshake.answer(names=names, shapes=shapes)


if __name__ == "__main__":
    main()
