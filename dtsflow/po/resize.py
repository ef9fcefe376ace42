"""Scaling the whole image or its centred square, and zooming inside a fixed frame.

Decoding a JPEG at a part of its size belongs here, since what follows scales it down
anyway.

A JPEG can be decoded at one half, a quarter or an eighth for a fraction of the work.
With `decode.scaled`, a sample is decoded at 1/d, d the largest of 1, 2, 4, 8 for which
the window that the first operation scales is at least d times the size it is scaled to.
The scaled image has sides rounded up; the window there is the smallest that covers the
true one. The pixels differ from those of a full decode, slightly: it is a choice.
"""

from typing import Annotated, Final, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from dtsflow.config.configurable import configurable
from dtsflow.native.core import Drawing, DrawKind, StepKind
from dtsflow.po.geometry import Size, resample, same_size, sides, windows
from dtsflow.po.operation import Draws, Image, Operation, Params, Pixels, Row, Sizes
from dtsflow.spec import ImageSpec

_DRAWINGS: Final = {
    "short": DrawKind.RESIZE_SHORT,
    "exact": DrawKind.RESIZE_EXACT,
    "square": DrawKind.RESIZE_SQUARE,
}


@configurable
class Resize:
    """Scale to a new size; channels unchanged.

    `short` makes the shorter side `size` and keeps the aspect ratio, as torchvision's
    Resize(size) does: the longer side is size * long / short, cut to a whole number.
    `exact` makes (height, width), whatever the aspect ratio; one number means a square.
    `square` takes the largest centred square first, and makes it `size` by `size`.
    """

    size: Size
    fit: Literal["short", "exact", "square"] = "short"
    antialias: bool = True

    @model_validator(mode="after")
    def _one_number(self) -> Self:
        if self.fit != "exact" and not isinstance(self.size, int):
            raise ValueError(
                f"fit {self.fit!r} takes one number and size is {list(self.size)}. Give one "
                "number, or fit: exact."
            )
        return self

    @property
    def step(self) -> StepKind:
        """Return the core's step: cut and scale."""
        return StepKind.SCALE if self.antialias else StepKind.SCALE_PLAIN

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        return Drawing(_DRAWINGS[self.fit], sides(self.size))

    @property
    def words(self) -> int:
        """None: nothing is random."""
        return 0

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Fix the size; with `short`, only where the input's is fixed."""
        if self.fit == "short":
            if spec.height is None or spec.width is None:
                return ImageSpec(None, None, spec.channels, spec.dtype)
            one = np.array([[spec.height, spec.width]], np.int64)
            height, width = self._short(one)[0].tolist()
        else:
            height, width = sides(self.size)
        return ImageSpec(height, width, spec.channels, spec.dtype)

    def draw(self, draws: Draws, sizes: Sizes) -> Params:  # noqa: ARG002  # nothing is random
        """Give the window to scale: the whole image, or its centred square."""
        height, width = sizes.T
        if self.fit != "square":
            return windows(np.zeros_like(height), np.zeros_like(width), height, width)
        side = np.minimum(height, width)
        return windows((height - side) // 2, (width - side) // 2, side, side)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # by size alone
        """Give the scaled sizes."""
        if self.fit == "short":
            return self._short(sizes)
        return same_size(len(sizes), *sides(self.size))

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Scale the window to fill `out`."""
        y, x, height, width = params.item()
        resample(image[y : y + height, x : x + width], out, antialias=self.antialias)

    def _short(self, sizes: Sizes) -> Sizes:
        short = sizes.min(axis=1, keepdims=True)
        return np.asarray(sides(self.size)[0] * sizes // short)


SCALED: Final = np.dtype([("h", "<i4"), ("w", "<i4"), ("antialias", "<i4")])
"""The size that the picture is scaled to, and how; Rescaling of geometry.hpp."""

Factor = Annotated[float, Field(gt=0, le=10)]


@configurable
class RandomScale:
    """Scale height and width by factors of their own; the image's size is unchanged.

    Each is uniform in `min_ratio`..`max_ratio`, and makes at least one pixel. Of what
    is too large the centre stays, around what is too small there are zeros; an odd one
    of the pixels lost or added is on the right and at the bottom. This is upstream's.
    """

    min_ratio: Factor
    max_ratio: Factor
    antialias: bool = True

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_ratio > self.max_ratio:
            raise ValueError(
                f"min_ratio is {self.min_ratio} and max_ratio {self.max_ratio}. Put the smaller "
                "one first."
            )
        return self

    @property
    def step(self) -> StepKind:
        """Return the core's step: scale, and put the middle into a frame."""
        return StepKind.RESCALE

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        reach = self.max_ratio - self.min_ratio
        return Drawing(DrawKind.RESCALE, (self.min_ratio, reach, self.antialias))

    @property
    def words(self) -> int:
        """Return two words: the factor of the width, then of the height."""
        return 2

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing."""
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        """Choose the sizes."""
        chosen = np.empty(len(sizes), SCALED)
        chosen["antialias"] = self.antialias
        for name, word, side in (("w", 0, sizes[:, 1]), ("h", 1, sizes[:, 0])):
            ratio = self.min_ratio + draws.uniform(word) * (self.max_ratio - self.min_ratio)
            chosen[name] = np.maximum(np.rint(side * ratio), 1)
        return chosen

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Scale the image into the middle of `out`."""
        height, width, antialias = params.item()
        scaled = np.empty((height, width, image.shape[2]), np.uint8)
        resample(image, scaled, antialias=bool(antialias))
        rows, columns = (
            _overlap(*pair) for pair in zip((height, width), out.shape[:2], strict=True)
        )
        out[...] = 0
        out[rows[1], columns[1]] = scaled[rows[0], columns[0]]


def _overlap(scaled: int, side: int) -> tuple[slice, slice]:
    """Return where the picture and its frame meet, as places in each of the two."""
    common = min(scaled, side)
    first, other = (scaled - common) // 2, (side - common) // 2
    return slice(first, first + common), slice(other, other + common)


SCALES: Final = (8, 4, 2)


def can_shrink(operations: tuple[Operation, ...]) -> bool:
    """Tell whether the first operation cuts a window and scales it."""
    first = getattr(operations[0], "step", None) if operations else None
    return first in (StepKind.SCALE, StepKind.SCALE_PLAIN)


def choose_scales(chosen: Params, out_sizes: Sizes) -> npt.NDArray[np.int64]:
    """Give d for each sample, from its window and the size it is scaled to."""
    scales = np.ones(len(chosen), np.int64)
    for scale in SCALES:
        fits = (chosen["h"] >= scale * out_sizes[:, 0]) & (chosen["w"] >= scale * out_sizes[:, 1])
        scales[fits & (scales == 1)] = scale
    return scales


def shrink(chosen: Params, scales: npt.NDArray[np.int64]) -> Params:
    """Move the windows to the images decoded at 1/d."""
    top, left = chosen["y"] // scales, chosen["x"] // scales
    bottom = -(-(chosen["y"] + chosen["h"]) // scales)
    right = -(-(chosen["x"] + chosen["w"]) // scales)
    return windows(top, left, bottom - top, right - left)
