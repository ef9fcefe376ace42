"""Cutting a window that may reach beyond the image, and what lies there.

`constant` is a colour. `edge` repeats the pixel at the edge. `reflect` mirrors the
image at its outermost pixels, which are not repeated (c b | a b c | b a), `symmetric`
at its edges (b a | a b c | c b). However far the window reaches, the mirroring goes on,
image after image, as NumPy's `pad` does it; a side of one pixel only has that pixel.
"""

from typing import Annotated, Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dtsflow.native.steps import StepKind
from dtsflow.po.fill import MOST_CHANNELS, Fill, colour, packed
from dtsflow.po.operation import Image, Params, Pixels, Row
from dtsflow.po.window import WINDOW

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
    """In the core: what cuts the rows that `frames` gives."""
    is_plain = border == "constant" and not colour(fill).any()
    return StepKind.CROP if is_plain else StepKind.PLACE


def border_numbers(border: Border, fill: Fill) -> tuple[int, int]:
    """The border's kind and colour as a drawing of the core takes them."""
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
    """Which of `side` places each of `count` places from `start` on shows."""
    place = np.arange(start, start + count, dtype=np.int64)
    if border == "edge" or side == 1:
        return np.clip(place, 0, side - 1)
    # Mirrored, the image and its mirror image repeat with this period.
    period = 2 * side if border == "symmetric" else 2 * side - 2
    place %= period
    return np.minimum(place, 2 * side - 1 - place if border == "symmetric" else period - place)
