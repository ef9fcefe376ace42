"""Making a picture larger or smaller inside a frame that stays."""

from typing import Annotated, Final, Self

import numpy as np
from pydantic import Field, model_validator

from dtsflow.configurable import configurable
from dtsflow.native.drawing import Drawing, DrawKind
from dtsflow.native.steps import StepKind
from dtsflow.po.operation import Draws, Image, Params, Pixels, Row, Sizes
from dtsflow.po.resample import resample
from dtsflow.spec import ImageSpec

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
        """In the core: scale, and put the middle into a frame."""
        return StepKind.RESCALE

    @property
    def drawing(self) -> Drawing:
        """In the core: the same."""
        reach = self.max_ratio - self.min_ratio
        return Drawing(DrawKind.RESCALE, (self.min_ratio, reach, self.antialias))

    @property
    def words(self) -> int:
        """Two: the factor of the width, then of the height."""
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
    """Where the picture and its frame meet, as places of the one and of the other."""
    common = min(scaled, side)
    first, other = (scaled - common) // 2, (side - common) // 2
    return slice(first, first + common), slice(other, other + common)
