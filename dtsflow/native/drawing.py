"""How operations draw, told to the compiled core; the numbers are those of its enum."""

from dataclasses import dataclass
from enum import IntEnum


class DrawKind(IntEnum):
    """How one operation chooses its parameters; drawing.hpp has the same.

    Each takes some numbers, of which a height and a width come first:

    RESIZED_CROP: the least share of the area and how far shares reach above it; the
    logarithm of the least aspect ratio and how far that reaches; the least ratio and
    the greatest. LOG_RESIZED_CROP: the same, with logarithms of the shares. CROP: the
    padding above, on the left, in height and in width; and not 0 where both sides are
    padded by what one of them lacks. CENTRE_CROP, RESIZE_EXACT and RESIZE_SQUARE: no
    more. RESIZE_SHORT: the shorter side twice. FLIP: only the probability.
    """

    RESIZED_CROP = 0
    LOG_RESIZED_CROP = 1
    CROP = 2
    CENTRE_CROP = 3
    FLIP = 4
    RESIZE_SHORT = 5
    RESIZE_EXACT = 6
    RESIZE_SQUARE = 7


@dataclass(frozen=True, slots=True)
class Drawing:
    """One operation's `draw` and `out_sizes` as data, for the core to do the same."""

    kind: DrawKind
    numbers: tuple[float, ...]
