"""Scaling an image to a new size, in two exactly defined ways.

Antialiased, it is Pillow's BILINEAR, bit for bit: a triangle as wide as the scale, so
that every source pixel counts. Each axis is a pass that rounds to uint8, so their order
matters: the height comes first if it shrinks, by more than twice what the width does in
pixels, else the width. That is the order of Pillow 13; older ones always take the width
first. Here each pass is a call of its own, and every Pillow gives the same.

Plain, it looks at the four pixels around a point. Output i of n comes from the point
(i + 1/2) * m / n - 1/2 of m, clamped to 0..m-1, the integer

    p = clamp((2i + 1) * m - n, 0, (m - 1) * 2n)      over 2n.

Its neighbours are lo = p div 2n and hi = min(lo + 1, m - 1). The weight of hi is the
fraction in 11 bits, rounded half up: w = ((p mod 2n) * 4096 + 2n) div 4n; that of lo is
2048 - w. Both directions are summed without rounding, and the result is rounded once,
half up: (sum + 2^21) div 2^22. No float is involved, so every machine agrees.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image as PillowImage

from dtsflow.po.operation import Image, Pixels

WEIGHT_BITS: Final = 11
_ONE: Final = 1 << WEIGHT_BITS
_HALF: Final = 1 << (2 * WEIGHT_BITS - 1)
_RGB: Final = 3


def resample(image: Image, out: Pixels, *, antialias: bool) -> None:
    """Scale `image` to the size of `out`."""
    if antialias:
        _antialiased(image, out)
    else:
        _plain(image, out)


def _antialiased(image: Image, out: Pixels) -> None:
    height, width, channels = out.shape
    if channels == _RGB:
        out[...] = _pillow(image, height, width)
        return
    for channel in range(channels):  # Pillow scales the channels of RGB apart as well
        out[..., channel] = _pillow(image[..., channel], height, width)


def _pillow(image: Image, height: int, width: int) -> Image:
    rows, columns = image.shape[:2]
    middle = (columns, height) if is_height_first(rows, columns, height, width) else (width, rows)
    picture = PillowImage.fromarray(image)
    for size in (middle, (width, height)):
        picture = picture.resize(size, PillowImage.Resampling.BILINEAR)
    return np.asarray(picture)


def is_height_first(rows: int, columns: int, height: int, width: int) -> bool:
    """Whether scaling rows x columns to height x width begins with the height."""
    return height < rows and rows - height > 2 * (columns - width)


def _plain(image: Image, out: Pixels) -> None:
    above, below, down = _neighbours(image.shape[0], out.shape[0])
    left, right, across = _neighbours(image.shape[1], out.shape[1])
    across = across[:, None]
    down = down[:, None, None]

    def row_sums(rows: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
        chosen = image[rows].astype(np.int32)
        return chosen[:, left] * (_ONE - across) + chosen[:, right] * across

    total = row_sums(above) * (_ONE - down) + row_sums(below) * down
    out[...] = (total + _HALF) >> (2 * WEIGHT_BITS)


def _neighbours(
    size: int, out_size: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.int32]]:
    """For each output place: the two source places, and the weight of the second."""
    unit = 2 * out_size
    place = (2 * np.arange(out_size, dtype=np.int64) + 1) * size - out_size
    place = np.clip(place, 0, (size - 1) * unit)
    low = place // unit
    weight = ((place - low * unit) * (2 * _ONE) + unit) // (2 * unit)
    return low, np.minimum(low + 1, size - 1), weight.astype(np.int32)
