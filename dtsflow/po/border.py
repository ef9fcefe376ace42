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

from dtsflow.po.fill import Fill, colour
from dtsflow.po.operation import Image, Pixels, Row

Border = Literal["constant", "edge", "reflect", "symmetric"]
BORDERS: Final[tuple[Border, ...]] = ("constant", "edge", "reflect", "symmetric")
"""Their numbers in the core; Border of geometry.hpp has the same."""

Margin = Annotated[int, Field(ge=0, le=1 << 15)]
Padding = Margin | tuple[Margin, Margin] | tuple[Margin, Margin, Margin, Margin]
"""As configured and as torchvision has it: one margin for all sides, (left and right,
top and bottom), or (left, top, right, bottom)."""


def margins(padding: Padding) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a configured padding."""
    if isinstance(padding, int):
        return (padding, padding, padding, padding)
    return padding if len(padding) == 4 else (*padding, *padding)  # noqa: PLR2004  # all of them


def cut(
    image: Image, out: Pixels, window: Row, *, border: Border = "constant", fill: Fill = 0
) -> None:
    """Fill `out` with a window of `image`, and with `border` where that leaves it."""
    y, x, height, width = window.item()
    rows, columns = image.shape[:2]
    if border != "constant":
        down = sources(y, height, rows, border)
        across = sources(x, width, columns, border)
        out[...] = image[down[:, None], across]
        return
    inside = image[max(y, 0) : max(y + height, 0), max(x, 0) : max(x + width, 0)]
    if inside.shape != out.shape:
        out[...] = colour(fill, image.shape[2])
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
