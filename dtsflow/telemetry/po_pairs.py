"""What operations do, to look at: each image before and after, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from dtsflow.po.normalize import Normalize

_SIDE: Final = 160  # pixels that the larger picture of a pair fits into
_GAP: Final = 18  # between the two, with an arrow in it
_MARGIN: Final = 14
_CAPTION: Final = 34  # two lines
_LETTERS: Final = 54  # of a line
_PAPER, _INK, _SOFT = (255, 255, 255), (40, 40, 40), (120, 120, 120)


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """An image as it enters an operation and as it leaves it; both uint8 HWC."""

    label: str
    before: npt.NDArray[np.uint8]
    after: npt.NDArray[np.uint8]


def viewable(operation: object, pixels: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """What an operation left, with a normalisation undone."""
    return operation.restore(pixels) if isinstance(operation, Normalize) else pixels


def draw(pairs: Sequence[Pair], columns: int = 3) -> Image.Image:
    """All pairs on one page, both pictures of a pair in the same scale."""
    columns = min(columns, len(pairs))
    wide, high = 2 * _SIDE + _GAP + _MARGIN, _SIDE + _CAPTION + _MARGIN
    lines = -(-len(pairs) // columns)
    page = Image.new("RGB", (columns * wide + _MARGIN, lines * high + _MARGIN), _PAPER)
    for number, pair in enumerate(pairs):
        left, top = _MARGIN + number % columns * wide, _MARGIN + number // columns * high
        _place(page, pair, left, top)
    return page


def _place(page: Image.Image, pair: Pair, left: int, top: int) -> None:
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(12)
    zoom = _SIDE / max(*pair.before.shape[:2], *pair.after.shape[:2])
    for pixels, x in ((pair.before, left), (pair.after, left + _SIDE + _GAP)):
        picture = _picture(pixels, zoom)
        page.paste(picture, (x + (_SIDE - picture.width) // 2, top + (_SIDE - picture.height) // 2))
    middle, x = top + _SIDE // 2, left + _SIDE
    pen.polygon([(x + 5, middle - 5), (x + 5, middle + 5), (x + 13, middle)], _SOFT)
    for line, text in enumerate(_lines(pair.label)[:2]):
        pen.text((left, top + _SIDE + 3 + 15 * line), text, _INK, font)


def _picture(pixels: npt.NDArray[np.uint8], zoom: float) -> Image.Image:
    plain = pixels[..., 0] if pixels.shape[-1] == 1 else np.ascontiguousarray(pixels)
    image = Image.fromarray(plain)
    size = (max(1, round(image.width * zoom)), max(1, round(image.height * zoom)))
    how = Image.Resampling.NEAREST if zoom > 1 else Image.Resampling.LANCZOS
    return image.resize(size, how)


def _lines(label: str) -> list[str]:
    """A label cut between words."""
    lines = [""]
    for word in label.split(" "):
        if len(lines[-1]) + len(word) >= _LETTERS and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
