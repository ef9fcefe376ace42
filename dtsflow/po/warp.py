"""Sampling an image along an affine map, in integers, so that every machine agrees.

The map goes backwards, from the output to the image: pixel (x, y) of the output shows
the image at the point

    X = xx * x + xy * y + x0,    Y = yx * x + yy * y + y0,

whole numbers in units of 2^-24 of a pixel, where a pixel of the image covers the points
from its own number up to the next. A point outside the image shows the fill colour.

    nearest   the pixel that covers the point.
    bilinear  the four pixels whose centres are around it, edges repeated: with
              p = X - 2^23, lo = floor(p / 2^24) and hi = lo + 1. The weight of hi is
              the fraction in 11 bits, rounded half up: (p mod 2^24 + 2^12) div 2^13;
              that of lo is 2048 less it. Both directions are summed without rounding,
              and the result is rounded once, half up: (sum + 2^21) div 2^22.
    corner    as bilinear, with p = X: upstream's, whose pixels lie at whole numbers.

Pillow computes the same points in float, or in steps of 2^-16 that add up; where they
lie on the other side of a pixel's edge, `nearest` differs from it.
"""

from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from dtsflow.po.fill import MOST_CHANNELS, Fill, colour, packed
from dtsflow.po.operation import Image, Params, Pixels, Row, Sizes
from dtsflow.po.resample import WEIGHT_BITS

POINT_BITS: Final = 24
Sampling = Literal["nearest", "bilinear", "corner"]
SAMPLINGS: Final[tuple[Sampling, ...]] = ("nearest", "bilinear", "corner")
"""Their numbers in the core; Sampling of geometry.hpp has the same."""

MAP: Final = np.dtype(
    [
        *((name, "<i8") for name in ("xx", "xy", "x0", "yx", "yy", "y0")),
        ("sampling", "<i4"),
        ("fill", "u1", MOST_CHANNELS),
    ]
)
"""An affine map in 2^-24 of a pixel, and how it is sampled; Map of geometry.hpp."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_ONE: Final = 1 << WEIGHT_BITS
_ROUND: Final = 1 << (2 * WEIGHT_BITS - 1)


def maps(
    linear: tuple[Floats, Floats, Floats, Floats],
    sizes: Sizes,
    *,
    shift: tuple[Floats, Floats] | None = None,
    sampling: Sampling = "nearest",
    fill: Fill = 0,
) -> Params:
    """Turn the linear parts (xx, xy, yx, yy) about the images' centres.

    The output is as large as the image. `shift` moves the picture by whole or broken
    pixels (to the right, down) after the linear part.
    """
    xx, xy, yx, yy = linear
    height, width = sizes.T
    centre_x, centre_y = width * 0.5, height * 0.5
    middle = 0.0 if sampling == "corner" else 0.5  # where the first pixel lies
    from_x, from_y = middle - centre_x, middle - centre_y
    if shift is not None:
        from_x, from_y = from_x - shift[0], from_y - shift[1]
    made = np.empty(len(sizes), MAP)
    made["sampling"], made["fill"] = SAMPLINGS.index(sampling), colour(fill)
    values = {
        "xx": xx,
        "xy": xy,
        "x0": xx * from_x + xy * from_y + centre_x,
        "yx": yx,
        "yy": yy,
        "y0": yx * from_x + yy * from_y + centre_y,
    }
    for name, value in values.items():
        made[name] = np.rint(value * float(1 << POINT_BITS))
    return made


def look(sampling: Sampling, fill: Fill) -> tuple[int, int]:
    """The sampling and the colour beyond as a drawing of the core takes them."""
    return SAMPLINGS.index(sampling), packed(fill)


def warp(image: Image, out: Pixels, params: Row) -> None:
    """Fill `out` with what the map of `params` shows of `image`."""
    rows, columns, channels = image.shape
    x = np.arange(out.shape[1], dtype=np.int64)
    y = np.arange(out.shape[0], dtype=np.int64)[:, None]
    across = params["xx"] * x + params["xy"] * y + params["x0"]
    down = params["yx"] * x + params["yy"] * y + params["y0"]
    inside = (across >= 0) & (across < columns << POINT_BITS)
    inside &= (down >= 0) & (down < rows << POINT_BITS)
    across, down = across[inside], down[inside]
    out[...] = params["fill"][:channels]
    sampling = SAMPLINGS[params["sampling"]]
    if sampling == "nearest":
        out[inside] = image[down >> POINT_BITS, across >> POINT_BITS]
        return
    half = 1 << (POINT_BITS - 1) if sampling == "bilinear" else 0
    above, below, low = _neighbours(down - half, rows)
    left, right, near = _neighbours(across - half, columns)
    wide = image.astype(np.int64)
    upper: Ints = wide[above, left] * (_ONE - near) + wide[above, right] * near
    lower: Ints = wide[below, left] * (_ONE - near) + wide[below, right] * near
    total: Ints = upper * (_ONE - low) + lower * low
    out[inside] = (total + _ROUND) >> (2 * WEIGHT_BITS)


def _neighbours(point: Ints, side: int) -> tuple[Ints, Ints, Ints]:
    """The places around each point, (n,), and the weight of the second, (n, 1)."""
    spare = POINT_BITS - WEIGHT_BITS
    place = point >> POINT_BITS
    rest = point & ((1 << POINT_BITS) - 1)
    weight = (rest + (1 << (spare - 1))) >> spare
    return np.clip(place, 0, side - 1), np.clip(place + 1, 0, side - 1), weight[:, None]
