"""Mean and standard deviation of a data set, from a sample of its images."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dtsflow.volume.mixing import mixing_number

_FEWEST = 64  # images, or all of a smaller set
_SHARE = 1 / 32  # of a larger one: decoding all would cost more than packing
_LEVELS = 256
_WHITE = 255
_DIGITS = 4  # decoders differ in the last bit of a pixel, and this need not show


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over pixels, whole numbers: the order of adding does not matter."""

    images: int = 0
    pixels: int = 0
    totals: tuple[int, int, int] = (0, 0, 0)
    squares: tuple[int, int, int] = (0, 0, 0)

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            self.images + other.images,
            self.pixels + other.pixels,
            _add(self.totals, other.totals),
            _add(self.squares, other.squares),
        )

    @property
    def mean(self) -> tuple[float, ...]:
        """Of red, green and blue, from 0 to 1; empty without images."""
        if not self.pixels:
            return ()
        return tuple(round(total / self.pixels / _WHITE, _DIGITS) for total in self.totals)

    @property
    def std(self) -> tuple[float, ...]:
        """Of red, green and blue, from 0 to 1; empty without images."""
        if not self.pixels:
            return ()
        sums = zip(self.totals, self.squares, strict=True)
        variances = [(self.pixels * square - total**2) / self.pixels**2 for total, square in sums]
        return tuple(round(variance**0.5 / _WHITE, _DIGITS) for variance in variances)


def sums_of(histogram: Sequence[int]) -> Sums:
    """The sums of one image from its RGB histogram, 256 entries a channel."""
    counts = np.array(histogram, np.int64).reshape(3, _LEVELS)
    values = np.arange(_LEVELS, dtype=np.int64)
    totals, squares = counts @ values, counts @ values**2
    return Sums(1, int(counts[0].sum()), _three(totals.tolist()), _three(squares.tolist()))


def is_sampled(name: str, images: int) -> bool:
    """Whether the image of this name is in the sample of a set of so many images.

    It depends on the name alone, so that the sample does not depend on the order.
    """
    share = max(_FEWEST / images, _SHARE)
    return mixing_number(name) < share * 2**64


def _add(left: tuple[int, int, int], right: tuple[int, int, int]) -> tuple[int, int, int]:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def _three(values: list[int]) -> tuple[int, int, int]:
    red, green, blue = values
    return red, green, blue
