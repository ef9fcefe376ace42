"""Write FFCV's own file: from class folders re-encoded at quality 95, or raw CIFAR.

usage: ffcv_write.py SOURCE FILE. SOURCE holds class folders, or images.npy, labels.npy.
"""

import sys
from pathlib import Path

import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.writer import DatasetWriter
from torchvision.datasets import ImageFolder

QUALITY = 95


class Raw:
    """Images and labels from .npy files, by number."""

    def __init__(self, folder: Path) -> None:
        self.images = np.load(folder / "images.npy")
        self.labels = np.load(folder / "labels.npy").tolist()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        """One image with its label."""
        return self.images[index], self.labels[index]


def main() -> None:
    """Write the file under a name of its own and rename it when it is whole."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    raw = (source / "images.npy").exists()
    image = RGBImageField(write_mode="raw" if raw else "jpg", jpeg_quality=QUALITY)
    part = target.with_suffix(".part")
    writer = DatasetWriter(str(part), {"image": image, "label": IntField()}, num_workers=2)
    writer.from_indexed_dataset(Raw(source) if raw else ImageFolder(str(source)))
    part.rename(target)


if __name__ == "__main__":
    main()
