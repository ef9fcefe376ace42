"""Changing colours: brightness, contrast, saturation and hue, gray, and stretching.

The four changes are random. Gray takes the colours away; stretching spreads each
channel over all values.

The four are Pillow's, which torchvision applies to images, bit for bit. The first three
mix a pixel x with another value o: o + f * (x - o), each step rounded to float32, the
result cut to a whole number and to 0..255. The other value is 0 for brightness; for
contrast the mean luma of the image as it then is, rounded half up; for saturation the
pixel's own luma.

The hue changes in HSV of eight bits. With v the greatest and n the least of a pixel's
channels, s = 255 * (v - n) / v and the hue h = 255 * its turn, both cut to whole
numbers, in float32. The shift is added modulo 256. Back, i = 6h div 255 and
m = 6h mod 255, and the channels are v, p = v * (1 - s/255) and either
q = v * (1 - s/255 * m/255) or t, the same of 255 - m, rounded to nearest. A shift of 0
may change a pixel as well, since eight bits do not hold every colour.
"""

from itertools import permutations
from typing import Annotated, Final, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from dtsflow.config.configurable import configurable
from dtsflow.errors import PlanError
from dtsflow.native.core import Drawing, DrawKind, StepKind
from dtsflow.po.operation import (
    GRAY,
    Draws,
    Image,
    Params,
    Pixels,
    Probability,
    Row,
    Sizes,
    blend,
    chances,
    require_gray_or_rgb,
    require_rgb,
)
from dtsflow.spec import ImageSpec


def luma(image: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
    """Return the luma of RGB, height x width, 0 to 255.

    ITU-R 601-2 as Pillow's mode L has it.

    (19595 R + 38470 G + 7471 B + 2^15) div 2^16.
    """
    red, green, blue = (image[..., channel].astype(np.int32) for channel in range(3))
    total: npt.NDArray[np.int32] = 19595 * red + 38470 * green + 7471 * blue + 0x8000
    return total >> 16


@configurable
class RandomGrayscale:
    """Make all three channels the luma, Pillow's L, with probability `p`."""

    p: Probability = 0.1

    @property
    def step(self) -> StepKind:
        """Return the core's step: gray."""
        return StepKind.GRAYSCALE

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        return Drawing(DrawKind.CHANCE, (self.p,))

    @property
    def words(self) -> int:
        """Return one word: it is gray where the draw is below `p`."""
        return 1

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing.

        Raises:
            PlanError: The images have no colours.
        """
        require_rgb(spec, "it")
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:  # noqa: ARG002  # all alike
        """Choose the samples that lose their colours."""
        return chances(draws, 0, self.p)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Fill `out` with the luma, or with the image as it is."""
        out[...] = luma(image)[..., None] if params["happens"] else image


Factor = Annotated[float, Field(ge=0, le=1e4)]
Shift = Annotated[float, Field(ge=-0.5, le=0.5)]
Whole = npt.NDArray[np.int32]

NAMES: Final = ("brightness", "contrast", "saturation", "hue")
JITTER: Final = np.dtype(
    [
        ("order", "<i4", (4,)),
        ("brightness", "<f4"),
        ("contrast", "<f4"),
        ("saturation", "<f4"),
        ("hue", "<i4"),
    ]
)
"""The changes by number in their order, -1 for none; their factors; the hue's shift."""

_ORDERS: Final = np.array(list(permutations(range(len(NAMES)))), np.int32)
_SQUARE: Final = 255 * 255


@configurable
class ColorJitter:
    """Change brightness, contrast, saturation and hue at random, in random order.

    A number b draws a factor from max(0, 1 - b) to 1 + b, uniformly; h of `hue` a shift
    from -h to h turns; a pair is the range itself. What is 0 is left out. The defaults
    and the four changes are torchvision's on Pillow images. (Upstream's hue turns
    unrounded colours, and its contrast an unrounded mean.)
    """

    brightness: Factor | tuple[Factor, Factor] = 0.0
    contrast: Factor | tuple[Factor, Factor] = 0.0
    saturation: Factor | tuple[Factor, Factor] = 0.0
    hue: Annotated[float, Field(ge=0, le=0.5)] | tuple[Shift, Shift] = 0.0

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for name in NAMES:
            value = getattr(self, name)
            if isinstance(value, tuple) and value[0] > value[1]:
                raise ValueError(
                    f"{name} goes from {value[0]} to {value[1]}. Put the smaller one first."
                )
        return self

    @property
    def step(self) -> StepKind:
        """Return the core's step: the four changes."""
        return StepKind.JITTER

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        ranges = [self._range(name) for name in NAMES]
        happens = sum(1 << number for number, span in enumerate(ranges) if span is not None)
        spans = (span or (0.0, 0.0) for span in ranges)
        numbers = (number for low, high in spans for number in (low, high - low))
        return Drawing(DrawKind.JITTER, (*numbers, happens))

    @property
    def words(self) -> int:
        """Five: the order, then a factor for each change, left out or not."""
        return 1 + len(NAMES)

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing.

        Raises:
            PlanError: The images are neither gray nor RGB, or gray and there is a
                change of saturation or hue.
        """
        require_gray_or_rgb(spec)
        for name in ("saturation", "hue"):
            if spec.channels == GRAY and self._range(name) is not None:
                raise PlanError(
                    f"{name} is {getattr(self, name)} and the images have 1 channel, which has "
                    f"no {name}. Set {name} to 0 for these images."
                )
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        """Choose the order and the factors."""
        chosen = np.empty(len(sizes), JITTER)
        orders = _ORDERS[draws.integers(0, len(_ORDERS))]
        ranges = [self._range(name) for name in NAMES]
        happens = np.array([span is not None for span in ranges])
        chosen["order"] = np.where(happens[orders], orders, -1)
        for word, (name, span) in enumerate(zip(NAMES, ranges, strict=True), 1):
            low, high = span or (0.0, 0.0)
            values = low + draws.uniform(word) * (high - low)
            # The shift in 255ths of a turn is cut to a whole number, as torchvision's.
            chosen[name] = (
                np.trunc(values * 255).astype(np.int32) & 255 if name == "hue" else values
            )
        return chosen

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Make the changes in their order."""
        jitter(image, out, params)

    def _range(self, name: str) -> tuple[float, float] | None:
        """Return the factors to draw from; None where nothing changes."""
        value: float | tuple[float, float] = getattr(self, name)
        neutral = 0.0 if name == "hue" else 1.0
        if isinstance(value, tuple):
            low, high = value
        else:
            low, high = neutral - value, neutral + value
            low = low if name == "hue" else max(low, 0.0)
        return None if low == high == neutral else (low, high)


def jitter(image: Image, out: Pixels, params: Row) -> None:
    """Make the changes that a row of JITTER says, in their order.

    An image of one channel has no hue to turn, and its own luma: saturation is nothing.
    """
    pixels = image.astype(np.int32)
    for change in params["order"]:
        if change >= 0:
            pixels = _changed(pixels, NAMES[change], params)
    out[...] = pixels


def _changed(pixels: Whole, name: str, params: Row) -> Whole:
    if name == "hue":
        return turn_hue(pixels, int(params["hue"]))
    other: Whole
    if name == "brightness":
        other = np.zeros(1, np.int32)
    elif name == "contrast":
        other = np.array([_mean(_luma(pixels))], np.int32)
    else:
        other = _luma(pixels)
    return blend(other, pixels, params[name])


def _luma(pixels: Whole) -> Whole:
    return pixels if pixels.shape[2] == GRAY else luma(pixels)[..., None]


def _mean(values: Whole) -> int:
    """Return the values rounded half up."""
    return (2 * int(values.sum(dtype=np.int64)) + values.size) // (2 * values.size)


def turn_hue(pixels: Whole, shift: int) -> Whole:
    """Turn the hue of RGB pixels (..., 3) by `shift` of 256 steps."""
    hue, saturation, value = _to_hsv(pixels)
    return _to_rgb((hue + shift) & 255, saturation, value)


def _to_hsv(pixels: Whole) -> tuple[Whole, Whole, Whole]:
    red, green, blue = (pixels[..., channel] for channel in range(3))
    value, low = pixels.max(axis=-1), pixels.min(axis=-1)
    spread = value - low
    middle = pixels.sum(axis=-1, dtype=np.int32) - value - low
    part = (value - middle).astype(np.float32) / np.maximum(spread, 1).astype(np.float32)
    is_red = value == red
    is_green = ~is_red & (value == green)
    least_blue = low == blue
    least_red = ~least_blue & (low == red)
    # The hue in sixths of a turn: a whole number, and `part` added or taken away.
    added = np.where(is_red, ~least_blue, np.where(is_green, least_blue, least_red))
    base = np.where(least_blue, 1, np.where(is_red, -1, np.where(least_red, 3, 5)))
    sixths = base.astype(np.float32) + np.where(added, part, -part)
    turn = sixths / np.float32(6)
    turn = np.where(sixths < 0, turn + np.float32(1), turn)
    hue = (turn * np.float32(255)).astype(np.int32)
    quotient = spread.astype(np.float32) / np.maximum(value, 1).astype(np.float32)
    return hue, (quotient * np.float32(255)).astype(np.int32), value


def _to_rgb(hue: Whole, saturation: Whole, value: Whole) -> Whole:
    sector, rest = 6 * hue // 255, 6 * hue % 255
    part = np.where(sector % 2 == 1, rest, 255 - rest)
    # Rounded to nearest: with odd divisors no quotient ends in one half.
    pale = (value * (255 - saturation) + 127) // 255
    between = (value * (_SQUARE - saturation * part) + _SQUARE // 2) // _SQUARE
    places = sector % 6
    red = np.choose(places, [value, between, pale, pale, between, value])
    green = np.choose(places, [between, value, value, between, pale, pale])
    blue = np.choose(places, [pale, pale, between, value, value, between])
    made: Whole = np.stack([red, green, blue], axis=-1).astype(np.int32)
    return made


@configurable
class RandomAutocontrast:
    """Stretch each channel, with probability `p`, to have 0 and 255 as its extremes.

    As Pillow's `ImageOps.autocontrast`, which torchvision calls: x becomes
    x * scale + offset, cut to a whole number, with scale = 255 / (max - min) and
    offset = -min * scale, each rounded to double. A channel of one value stays.
    (Upstream rounds the result instead.)
    """

    p: Probability = 0.5

    @property
    def step(self) -> StepKind:
        """Return the core's step: stretch."""
        return StepKind.AUTOCONTRAST

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        return Drawing(DrawKind.CHANCE, (self.p,))

    @property
    def words(self) -> int:
        """Return one word: it happens where the draw is below `p`."""
        return 1

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing.

        Raises:
            PlanError: The images are neither gray nor RGB.
        """
        require_gray_or_rgb(spec)
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:  # noqa: ARG002  # all alike
        """Choose the samples to stretch."""
        return chances(draws, 0, self.p)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Stretch the image, or copy it."""
        if params["happens"]:
            stretch(image, out)
        else:
            out[...] = image


def stretch(image: Image, out: Pixels) -> None:
    """Stretch each channel of more than one value from 0 to 255."""
    out[...] = image
    for channel in range(image.shape[2]):
        low, high = int(image[..., channel].min()), int(image[..., channel].max())
        if low == high:
            continue
        scale = 255.0 / (high - low)
        stretched = np.arange(256) * scale + -low * scale
        table = np.clip(stretched, 0, 255).astype(np.uint8)
        out[..., channel] = table[image[..., channel]]
