"""An example of every operation that dtsflow.po exports, shown on photos.

The page has each image before and after its operation, side by side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from dtsflow import po
from dtsflow.po.color import luma
from dtsflow.po.normalize import Normalize
from dtsflow.volume.datasets.synthetic import Look, make_plates, paint

Photos = npt.NDArray[np.uint8]
"""Images of one size: (n, height, width, channels)."""

_GOLDEN: Final = 0.618034  # multiples of it, modulo 1, keep any number of hues apart
_FIRST: Final = 5  # the first photo is the one that is shown, and this one has colours
_SMALLEST: Final = 96  # pixels of a side that is painted
_SURE: Final = {"p": 1.0}  # what it costs when it happens


@dataclass(frozen=True, slots=True)
class Example:
    """One operation, of images or of the rows of a batch, and how it is written."""

    label: str
    operation: Any


def names() -> list[str]:
    """Return the operations that dtsflow.po exports."""
    exported = ((name, getattr(po, name)) for name in po.__all__)
    return sorted(name for name, one in exported if hasattr(one, "draw") and hasattr(one, "apply"))


def example(name: str, height: int, width: int) -> Example:
    """Return an operation of this name, for images of this size.

    One of chance happens always. An operation that needs no arguments has its defaults.

    Raises:
        TypeError: It needs arguments, and we have no example of them.
    """
    arguments = _arguments(height, width).get(name, {})
    shown = ", ".join(f"{key}={_text(value)}" for key, value in arguments.items())
    return Example(f"{name}({shown})", getattr(po, name)(**arguments))


def photos(count: int, height: int, width: int, channels: int) -> Photos:
    """Different photo-like images, always the same ones; one channel is their luma."""
    plates = make_plates(np.random.default_rng(0))
    zoom = -(-_SMALLEST // min(height, width))  # texture does not shrink with a picture
    made = np.empty((count, height, width, channels), np.uint8)
    for place, number in enumerate(range(_FIRST, _FIRST + count)):
        look = Look(hue=number * _GOLDEN % 1, roughness=(number * 7 % 10) / 9)
        painted = paint(width * zoom, height * zoom, look, plates, np.random.default_rng(number))
        scaled = Image.fromarray(painted).resize((width, height), Image.Resampling.BOX)
        image = np.asarray(scaled)
        made[place] = luma(image.astype(np.int32))[..., None] if channels == 1 else image
    return made


def _arguments(height: int, width: int) -> Mapping[str, Mapping[str, Any]]:
    inner = (max(1, height * 3 // 4), max(1, width * 3 // 4))
    margin = max(1, min(height, width) // 8)
    return {
        "CenterCrop": {"size": inner},
        "ColorJitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1},
        "FastRandomResizedCrop": {"size": (height, width)},
        "GaussianBlur": {"kernel_size": 5},
        "Normalize": {"preset": "none", "dtype": "FP16"},
        "Pad": {"padding": margin, "padding_mode": "reflect"},
        "RandomAffine": {"degrees": 20, "translate": (0.1, 0.1), "interpolation": "bilinear"},
        "RandomAutocontrast": _SURE,
        "RandomCrop": {"size": (height, width), "padding": margin},
        "RandomErasing": _SURE,
        "RandomGrayscale": _SURE,
        "RandomHorizontalFlip": _SURE,
        "RandomResizedCrop": {"size": (height, width)},
        "RandomRotation": {"degrees": 30, "interpolation": "bilinear"},
        "RandomScale": {"min_ratio": 0.8, "max_ratio": 1.2},
        "RandomVerticalFlip": _SURE,
        "Resize": {"size": inner, "fit": "exact"},
    }


def _text(value: object) -> str:
    """Return an argument, short.

    A pair of equal numbers is shown as one number.
    """
    if isinstance(value, tuple):
        parts = [_text(part) for part in dict.fromkeys(value)]
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
    return f"{value:g}" if isinstance(value, float) else str(value)


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
    """Return what an operation left, with a normalisation undone."""
    return operation.restore(pixels) if isinstance(operation, Normalize) else pixels


def draw(pairs: Sequence[Pair], columns: int = 3) -> Image.Image:
    """Return all pairs on one page, both pictures of a pair in the same scale."""
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
    """Return a label cut between words."""
    lines = [""]
    for word in label.split(" "):
        if len(lines[-1]) + len(word) >= _LETTERS and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
