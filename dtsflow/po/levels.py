"""Mapping each value of a pixel to another one, in three ways of Pillow's."""

import numpy as np
import numpy.typing as npt

from dtsflow.po.operation import Image, Pixels

_LEVELS = 256
Table = npt.NDArray[np.uint8]


def posterize(image: Image, out: Pixels, bits: int) -> None:
    """Keep only the `bits` highest bits of each value, 0 to 8."""
    out[...] = image & (-(1 << (8 - bits)) & 0xFF)


def solarize(image: Image, out: Pixels, threshold: float) -> None:
    """Take values from `threshold` on from 255."""
    out[...] = np.where(image < np.float32(threshold), image, 255 - image)


def equalize(image: Image, out: Pixels) -> None:
    """Spread each channel's values, so that all become about equally frequent.

    With s the number of pixels, less those of the greatest value, div 255, the value x
    becomes (s div 2 + pixels below x) div s, at most 255. Where s is 0 nothing changes.
    """
    for channel in range(image.shape[2]):
        counts = np.bincount(image[..., channel].ravel(), minlength=_LEVELS)
        out[..., channel] = _spread(counts)[image[..., channel]]


def _spread(counts: npt.NDArray[np.int64]) -> Table:
    greatest = np.flatnonzero(counts)[-1]
    step = (counts.sum() - counts[greatest]) // 255
    if step == 0:
        return np.arange(_LEVELS, dtype=np.uint8)
    below = step // 2 + np.cumsum(counts) - counts
    table: Table = np.minimum(below // step, 255).astype(np.uint8)
    return table
