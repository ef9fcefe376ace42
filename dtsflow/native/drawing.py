"""How operations draw, told to the compiled core; the numbers are those of its enum."""

from dataclasses import dataclass
from enum import IntEnum


class DrawKind(IntEnum):
    """How one operation chooses its parameters; drawing.hpp has the same.

    Each takes some numbers. Where what comes out has a size of its own, its height and
    width come first. A range is two numbers: where it begins and how far it reaches. A
    border is its number in `po.border` and a packed colour, a look the number of a
    sampling in `po.warp` and a packed colour.

    RESIZED_CROP: the range of the share of the area, that of the aspect ratio's
    logarithm, the least ratio and the greatest. LOG_RESIZED_CROP: the same, with
    logarithms of the shares. CROP: the padding above, on the left, in height and in
    width; not 0 where both sides are padded by what one of them lacks; the border.
    CENTRE_CROP: not 0 where the first of two middle places is taken. RESIZE_EXACT and
    RESIZE_SQUARE: no more. RESIZE_SHORT: the shorter side twice.

    PAD: the margin above, on the left, in height and in width; the border. ERASE: the
    probability, the range of the share, that of the ratio's logarithm. FLIP, CHANCE:
    only the probability. JITTER: four ranges, then which changes happen, as bits.
    ROTATE: the range of degrees, not 0 where small ones are none, the look. AFFINE: the
    range of degrees, the shares of the sides that it moves by, the ranges of the factor
    and of the shears, the look. RESCALE: the range of factors, whether antialiased.
    BLUR: the range of sigma, the radius. NOISE: mean and sigma. RAND_AUGMENT: the first
    of its words, place and number of magnitudes, the look. TRIVIAL_AUGMENT: the number
    of magnitudes, the look.
    """

    RESIZED_CROP = 0
    LOG_RESIZED_CROP = 1
    CROP = 2
    CENTRE_CROP = 3
    FLIP = 4
    RESIZE_SHORT = 5
    RESIZE_EXACT = 6
    RESIZE_SQUARE = 7
    PAD = 8
    ERASE = 9
    CHANCE = 10
    JITTER = 11
    ROTATE = 12
    AFFINE = 13
    RESCALE = 14
    BLUR = 15
    NOISE = 16
    RAND_AUGMENT = 17
    TRIVIAL_AUGMENT = 18


@dataclass(frozen=True, slots=True)
class Drawing:
    """The `draw` and `out_sizes` of one step as data, for the core to do the same."""

    kind: DrawKind
    numbers: tuple[float, ...]
