"""torchvision and torch's DataLoader: `workers` processes, NHWC half batches.

Of the ways to write this in torchvision, the faster one here: Pillow decodes, and the
crop works on the uint8 tensor (on the Pillow image it is slower and cannot leave out
the antialiasing).
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torchvision
from PIL import Image
from timing import (
    CIFAR_MEAN,
    CIFAR_PAD,
    CIFAR_SIZE,
    CIFAR_STD,
    MEAN,
    RATIO,
    SCALE,
    SIZE,
    STD,
    job,
    timed,
)
from torch.utils.data import DataLoader, Dataset
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

Floats = tuple[float, float, float]


class Cifar(Dataset):
    """Images and labels from .npy files, handed out as torchvision's CIFAR10 does."""

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


def main() -> None:
    """Time whole passes over the DataLoader."""
    asked = job()
    if asked.task == "cifar":
        crop = [v2.RandomCrop(CIFAR_SIZE, padding=CIFAR_PAD)] if asked.crop else []
        data = Cifar(Path(asked.data), transforms(crop, CIFAR_MEAN, CIFAR_STD))
    else:
        crop = v2.RandomResizedCrop(SIZE, SCALE, RATIO, antialias=asked.antialias)
        data = ImageFolder(asked.data, transforms([crop], MEAN, STD))
    loader = DataLoader(
        data,
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
