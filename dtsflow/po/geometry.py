"""Windows of an image: parameters, borders, and scaling in two exact ways.

The parameters serve every operation that cuts or scales. A window may reach beyond the
image; the border mode says what lies there.

`constant` is a colour. `edge` repeats the pixel at the edge. `reflect` mirrors the
image at its outermost pixels, which are not repeated (c b | a b c | b a), `symmetric`
at its edges (b a | a b c | c b). However far the window reaches, the mirroring goes on,
image after image, as NumPy's `pad` does it; a side of one pixel only has that pixel.

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

from typing import Annotated, Final, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image as PillowImage
from pydantic import Field, PositiveInt

from dtsflow.native.core import StepKind
from dtsflow.po.operation import (
    MOST_CHANNELS,
    Fill,
    Image,
    Params,
    Pixels,
    Row,
    Sizes,
    colour,
    packed,
)

Size = PositiveInt | tuple[PositiveInt, PositiveInt]
"""An output size as configured: the side of a square, or (height, width)."""

WINDOW: Final = np.dtype([("y", "<i4"), ("x", "<i4"), ("h", "<i4"), ("w", "<i4")])
"""Rows y to y + h and columns x to x + w."""

Numbers = npt.NDArray[np.int64]


def sides(size: int | tuple[int, int]) -> tuple[int, int]:
    """Return the height and width that a configured size means."""
    return (size, size) if isinstance(size, int) else size


def windows(y: Numbers, x: Numbers, height: Numbers | int, width: Numbers | int) -> Params:
    """Gather windows from their columns, each of shape (n,) or one number for all."""
    made = np.empty(len(y), WINDOW)
    made["y"], made["x"], made["h"], made["w"] = y, x, height, width
    return made


def same_size(count: int, height: int, width: int) -> Sizes:
    """Return the sizes of `count` samples that all come out alike."""
    return np.full((count, 2), (height, width), np.int64)


Border = Literal["constant", "edge", "reflect", "symmetric"]
BORDERS: Final[tuple[Border, ...]] = ("constant", "edge", "reflect", "symmetric")
"""Their numbers in the core; Border of geometry.hpp has the same."""

FRAME: Final = np.dtype(
    [*((name, "<i4") for name in ("y", "x", "h", "w", "border")), ("fill", "u1", MOST_CHANNELS)]
)
"""A window, the number of its border, and the colour; Frame of geometry.hpp."""

Margin = Annotated[int, Field(ge=0, le=1 << 15)]
Padding = Margin | tuple[Margin, Margin] | tuple[Margin, Margin, Margin, Margin]
"""As configured and as torchvision has it: one margin for all sides, (left and right,
top and bottom), or (left, top, right, bottom)."""


def margins(padding: Padding) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a configured padding."""
    if isinstance(padding, int):
        return (padding, padding, padding, padding)
    return padding if len(padding) == 4 else (*padding, *padding)  # noqa: PLR2004  # all of them


def frames(window: Params, border: Border, fill: Fill) -> Params:
    """Add what lies beyond the image to windows; they stay as they are for zeros."""
    pixel = colour(fill)
    if border == "constant" and not pixel.any():
        return window
    made = np.empty(len(window), FRAME)
    for name in WINDOW.fields or ():
        made[name] = window[name]
    made["border"], made["fill"] = BORDERS.index(border), pixel
    return made


def frame_step(border: Border, fill: Fill) -> StepKind:
    """Return the core's step that cuts the rows that `frames` gives."""
    is_plain = border == "constant" and not colour(fill).any()
    return StepKind.CROP if is_plain else StepKind.PLACE


def border_numbers(border: Border, fill: Fill) -> tuple[int, int]:
    """Return the border's kind and colour as a drawing of the core takes them."""
    return BORDERS.index(border), packed(fill)


def cut(image: Image, out: Pixels, params: Row) -> None:
    """Fill `out` with a window of `image`, and with its border where that leaves it."""
    y, x, height, width = (int(params[name]) for name in WINDOW.fields or ())
    rows, columns = image.shape[:2]
    is_framed = params.dtype == FRAME
    border: Border = BORDERS[params["border"]] if is_framed else "constant"
    if border != "constant":
        down = sources(y, height, rows, border)
        across = sources(x, width, columns, border)
        out[...] = image[down[:, None], across]
        return
    inside = image[max(y, 0) : max(y + height, 0), max(x, 0) : max(x + width, 0)]
    if inside.shape != out.shape:
        out[...] = params["fill"][: image.shape[2]] if is_framed else 0
    top, left = max(-y, 0), max(-x, 0)
    out[top : top + inside.shape[0], left : left + inside.shape[1]] = inside


def sources(start: int, count: int, side: int, border: Border) -> npt.NDArray[np.int64]:
    """Return which of `side` places each of `count` places from `start` on shows."""
    place = np.arange(start, start + count, dtype=np.int64)
    if border == "edge" or side == 1:
        return np.clip(place, 0, side - 1)
    # Mirrored, the image and its mirror image repeat with this period.
    period = 2 * side if border == "symmetric" else 2 * side - 2
    place %= period
    return np.minimum(place, 2 * side - 1 - place if border == "symmetric" else period - place)


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
    """Tell whether scaling rows x columns to height x width begins with the height."""
    return height < rows and rows - height > 2 * (columns - width)


def _plain(image: Image, out: Pixels) -> None:
    above, below, down = _local_peers(image.shape[0], out.shape[0])
    left, right, across = _local_peers(image.shape[1], out.shape[1])
    across = across[:, None]
    down = down[:, None, None]

    def row_sums(rows: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
        chosen = image[rows].astype(np.int32)
        return chosen[:, left] * (_ONE - across) + chosen[:, right] * across

    total = row_sums(above) * (_ONE - down) + row_sums(below) * down
    out[...] = (total + _HALF) >> (2 * WEIGHT_BITS)


def _local_peers(
    size: int, out_size: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.int32]]:
    """Return for each output place two source places and the second's weight."""
    unit = 2 * out_size
    place = (2 * np.arange(out_size, dtype=np.int64) + 1) * size - out_size
    place = np.clip(place, 0, (size - 1) * unit)
    low = place // unit
    weight = ((place - low * unit) * (2 * _ONE) + unit) // (2 * unit)
    return low, np.minimum(low + 1, size - 1), weight.astype(np.int32)
