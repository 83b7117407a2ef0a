"""Train a small convolution net on CIFAR-like images, on the CPU: a job to profile.

    pillion run -- python examples/train_cifar.py

The images are made up: each class is a blurred pattern of its own, seen shifted, flipped, shaded and noisy. Without
Pillion installed the script is the same job; the ranges are then empty.
"""

import argparse
import random
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

try:
    from pillion import record_function
except ImportError:

    def record_function(name: str) -> nullcontext:
        return nullcontext()


CLASSES = 10
SIDE = 32


class SyntheticCifar(Dataset):
    """Images of 3 × 32 × 32 with the class that each shows; item i is the same in every epoch but for augmentation."""

    def __init__(self, length: int, seed: int, augment: bool) -> None:
        rough = torch.rand(CLASSES, 3, 8, 8, generator=torch.Generator().manual_seed(71))
        self.patterns = F.interpolate(rough, size=(SIDE, SIDE), mode="bilinear")
        self.length = length
        self.seed = seed
        self.augment = augment

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        label = index % CLASSES
        generator = torch.Generator().manual_seed(self.seed * self.length + index)
        image = self.patterns[label] + 1.0 * torch.randn(3, SIDE, SIDE, generator=generator)
        return (augment(image) if self.augment else image), label


def augment(image: Tensor) -> Tensor:
    """A random crop, flip, shade and a hole: what torchvision's transforms would do."""
    padded = F.pad(image, (4, 4, 4, 4), mode="reflect")
    top, left = random.randrange(9), random.randrange(9)
    image = padded[:, top : top + SIDE, left : left + SIDE]
    if random.random() < 0.5:
        image = image.flip(-1)
    return cut_out(image * vignette(random.uniform(0.1, 0.5)), size=8)


def vignette(strength: float) -> Tensor:
    """Darkens towards the corners, one pixel at a time: the loop in Python that a profile should point at."""
    centre = (SIDE - 1) / 2
    rows = []
    for y in range(SIDE):
        rows.append([1 - strength * ((x - centre) ** 2 + (y - centre) ** 2) / (2 * centre**2) for x in range(SIDE)])
    return torch.tensor(rows)


def cut_out(image: Tensor, size: int) -> Tensor:
    top, left = random.randrange(SIDE - size), random.randrange(SIDE - size)
    image = image.clone()
    image[:, top : top + size, left : left + size] = 0
    return image


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(block(3, 16), block(16, 32), block(32, 64))
        self.classifier = nn.Linear(64, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images).mean(dim=(2, 3)))


def block(channels_in: int, channels_out: int) -> nn.Module:
    convolution = nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels_out), nn.ReLU(), nn.MaxPool2d(2))


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> float:
    with record_function("forward"):
        loss = F.cross_entropy(model(images), labels)
    with record_function("backward"):
        optimizer.zero_grad()
        loss.backward()
    with record_function("optimizer"):
        optimizer.step()
    return loss.item()


@torch.no_grad()
def validate(model: nn.Module, loader: DataLoader) -> float:
    """The share of the loader's images that the model recognises."""
    model.eval()
    with record_function("validate"):
        right = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in loader)
    model.train()
    return right / len(loader.dataset)


def save_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    with record_function("checkpoint"):
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, help="training steps (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="images a step (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="DataLoader workers (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and data (default: %(default)s)")
    parser.add_argument("--checkpoint", type=Path, help="keep the trained model here")
    args = parser.parse_args()

    random.seed(args.seed)
    torch.manual_seed(args.seed)
    training = SyntheticCifar(args.steps * args.batch_size, args.seed, augment=True)
    validation = SyntheticCifar(512, args.seed + 1, augment=False)
    batches = iter(DataLoader(training, args.batch_size, shuffle=True, num_workers=args.workers))
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)

    began = time.monotonic()
    for step in range(1, args.steps + 1):
        with record_function("data"):
            images, labels = next(batches)
        loss = train_step(model, optimizer, images, labels)
        if step % 20 == 0 or step == args.steps:
            rate = step * args.batch_size / (time.monotonic() - began)
            print(f"step {step:4d}  loss {loss:.3f}  {rate:5.0f} images/s", flush=True)

    accuracy = validate(model, DataLoader(validation, args.batch_size))
    print(f"validation accuracy {accuracy:.1%}")
    with tempfile.TemporaryDirectory() as scratch:
        save_checkpoint(args.checkpoint or Path(scratch, "model.pt"), model, optimizer)


if __name__ == "__main__":
    main()
