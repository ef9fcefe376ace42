"""Sharpening an image, or smoothing it."""

import numpy as np

from dtsflow.po.blend import blend
from dtsflow.po.operation import Image, Pixels

_WEIGHT = 13  # of all nine pixels; the middle one's is 5


def sharpen(image: Image, out: Pixels, factor: np.float32) -> None:
    """Mix the image with a smoothed one: Pillow's `ImageEnhance.Sharpness`.

    A pixel is smoothed to the mean of itself, five times, and its eight neighbours,
    rounded to nearest; those of the border stay. `factor` 0 gives the smoothed image, 1
    the image, and what is beyond sharpens.
    """
    wide = image.astype(np.int32)
    height, width = image.shape[:2]
    smooth = wide.copy()
    total = 4 * wide[1:-1, 1:-1]
    for y in range(3):
        for x in range(3):
            total = total + wide[y : height - 2 + y, x : width - 2 + x]
    smooth[1:-1, 1:-1] = (2 * total + _WEIGHT) // (2 * _WEIGHT)
    out[...] = blend(smooth, wide, factor)
