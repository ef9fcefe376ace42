"""torchvision and torch's DataLoader: `workers` processes, NHWC half batches.

Of the ways to write a crop in torchvision, the faster one here: Pillow decodes, and the
crop works on the uint8 tensor (on the Pillow image it is slower and cannot leave out
the antialiasing). Which is faster for a recipe with more in it differs, so there the
job says `on`: `tensor` or `Pillow`.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import torchvision
from PIL import Image
from timing import (
    CIFAR_MEAN,
    CIFAR_PAD,
    CIFAR_SIZE,
    CIFAR_STD,
    ERASE,
    ERASE_RATIO,
    ERASE_SCALE,
    HUE,
    JITTER,
    MEAN,
    MNIST_MEAN,
    MNIST_STD,
    RATIO,
    SCALE,
    SIZE,
    STD,
    job,
    timed,
)
from torch.utils.data import DataLoader, Dataset
from torchvision.datasets import ImageFolder
from torchvision.transforms import InterpolationMode, v2

Floats = tuple[float, ...]


class Arrays(Dataset):
    """Images and labels from .npy files, as torchvision's CIFAR10 and MNIST do it."""

    def __init__(self, folder: Path, transform: Callable[[Image.Image], torch.Tensor]) -> None:
        self.images = np.load(folder / "images.npy")
        self.labels = np.load(folder / "labels.npy").tolist()
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """One transformed image with its label."""
        return self.transform(Image.fromarray(self.images[index])), self.labels[index]


def to_nhwc(image: torch.Tensor) -> torch.Tensor:
    """HWC in memory, so that the stacked batch is NHWC; a function, to be picklable."""
    return image.permute(1, 2, 0).contiguous()


def transforms(geometry: list[torch.nn.Module], mean: Floats, std: Floats) -> v2.Compose:
    """`geometry` on the uint8 tensor, then flip, normalise, half, NHWC."""
    return v2.Compose(
        [
            v2.PILToTensor(),
            *geometry,
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(mean, std, inplace=True),
            v2.ToDtype(torch.float16),
            v2.Lambda(to_nhwc),
        ]
    )


def recipe(
    on: str, crop: v2.Transform, changes: list[v2.Transform], last: list[v2.Transform]
) -> v2.Compose:
    """Crop, flip and `changes` on tensors or Pillow images; then normalise, `last`."""
    to_tensor = v2.PILToTensor()
    pixels = [crop, v2.RandomHorizontalFlip(), *changes]
    pixels = [to_tensor, *pixels] if on == "tensor" else [*pixels, to_tensor]
    floats = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD, inplace=True)]
    return v2.Compose([*pixels, *floats, *last, v2.ToDtype(torch.float16), v2.Lambda(to_nhwc)])


def digits(on: str) -> v2.Compose:
    """The MNIST recipe; both sides have one scale, for torchvision has no other."""
    to_tensor, bilinear = v2.PILToTensor(), InterpolationMode.BILINEAR
    moved = [
        v2.Pad(2),
        v2.RandomCrop(28),
        v2.RandomRotation(20, interpolation=bilinear),
        v2.RandomAffine(0, scale=(0.8, 1.2), interpolation=bilinear),
    ]
    pixels = [to_tensor, *moved] if on == "tensor" else [*moved, to_tensor]
    floats = [
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(MNIST_MEAN, MNIST_STD, inplace=True),
        v2.RandomErasing(0.5, ERASE_SCALE, ERASE_RATIO),
    ]
    return v2.Compose([*pixels, *floats, v2.Lambda(to_nhwc)])


def data_set(asked: SimpleNamespace) -> Dataset:
    """What the job's task reads, with its transforms."""
    if asked.task == "cifar":
        crop = [v2.RandomCrop(CIFAR_SIZE, padding=CIFAR_PAD)] if asked.crop else []
        return Arrays(Path(asked.data), transforms(crop, CIFAR_MEAN, CIFAR_STD))
    if asked.task == "mnist":
        return Arrays(Path(asked.data), digits(asked.on))
    crop = v2.RandomResizedCrop(SIZE, SCALE, RATIO, antialias=asked.antialias)
    if asked.task == "vgg":
        jitter = v2.ColorJitter(JITTER, JITTER, JITTER, HUE)
        erasing = v2.RandomErasing(ERASE, ERASE_SCALE, ERASE_RATIO, inplace=True)
        return ImageFolder(asked.data, recipe(asked.on, crop, [jitter], [erasing]))
    if asked.task == "randaugment":
        return ImageFolder(asked.data, recipe(asked.on, crop, [v2.RandAugment()], []))
    return ImageFolder(asked.data, transforms([crop], MEAN, STD))


def main() -> None:
    """Time whole passes over the DataLoader."""
    asked = job()
    loader = DataLoader(
        data_set(asked),
        batch_size=asked.batch,
        shuffle=True,
        num_workers=asked.workers,
        drop_last=True,
        persistent_workers=True,
    )

    def one_pass() -> int:
        images = 0
        for batch, labels in loader:
            images += len(batch)
            int(labels[0])
        return images

    timed(one_pass, asked.passes, f"torchvision {torchvision.__version__}")


if __name__ == "__main__":
    main()
