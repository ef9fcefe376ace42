"""From the pixels of MNIST or CIFAR to one volume, as upstream writes it."""

from pathlib import Path

import numpy as np

from dtsflow.errors import PackError
from dtsflow.volume.checksum import crc32
from dtsflow.volume.format import SMALL_AREA_BYTES, SUFFIX
from dtsflow.volume.replacing import check_space, refuse_existing, replacing
from dtsflow.volume.small_header import most_samples, small_header
from dtsflow.volume.source.pixels import SPLITS, PixelSet


def pack_pixels(pixels: PixelSet, folder: Path, *, split: str, level: int = 0) -> Path:
    """Write a set into `folder` as `mnist_test.dts`, `cifar10_train.dts` and so on.

    The bytes are upstream's for the same samples; `level` is only recorded. The file
    appears under its name only when all of it is on the disk. `folder` is made if it is
    missing.

    Raises:
        PackError: `split` is neither train nor test, the volume exists already, there
            are more samples than it can hold, the disk is full, or writing failed.
    """
    if split not in SPLITS:
        raise PackError(
            f"{pixels.kind.value} has {' and '.join(SPLITS)} and no {split}. Choose one of the two."
        )
    path = folder / f"{pixels.kind.value.lower()}_{split}{SUFFIX}"
    refuse_existing(path)
    samples, most = len(pixels.labels), most_samples(pixels.kind)
    if samples > most:
        raise PackError(
            f"{samples} samples do not fit {path}: a volume of this kind holds {most}. Pack "
            "fewer of them."
        )
    labels, images = np.ascontiguousarray(pixels.labels), np.ascontiguousarray(pixels.pixels)
    crc = crc32(images.data, crc32(labels.data))
    header = small_header(pixels.kind, samples, is_training=split == "train", level=level, crc=crc)
    _make(folder)
    check_space(folder, SMALL_AREA_BYTES + labels.nbytes + images.nbytes)
    with replacing(path) as file:
        file.write(header.to_bytes().ljust(SMALL_AREA_BYTES, b"\0"))
        file.write(labels.data)
        file.write(images.data)
    return path


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PackError(f"{folder} cannot be made: {error.strerror}. Choose another.") from error
