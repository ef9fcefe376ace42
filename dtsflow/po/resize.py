"""Scaling the whole image, or its centred square."""

from typing import Final, Literal, Self

import numpy as np
from pydantic import model_validator

from dtsflow.configurable import configurable
from dtsflow.native.drawing import Drawing, DrawKind
from dtsflow.native.steps import StepKind
from dtsflow.po.operation import Draws, Image, Params, Pixels, Row, Sizes
from dtsflow.po.resample import resample
from dtsflow.po.window import Size, same_size, sides, windows
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
        """In the core: cut and scale."""
        return StepKind.SCALE if self.antialias else StepKind.SCALE_PLAIN

    @property
    def drawing(self) -> Drawing:
        """In the core: the same."""
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
