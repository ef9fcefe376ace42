"""Mirroring an image, left to right or top to bottom, or changing nothing.

The latter stands in a chain where an operation is expected.
"""

from typing import Annotated, Final

import numpy as np
from pydantic import Field

from dtsflow.config.configurable import configurable
from dtsflow.native.core import Drawing, DrawKind, StepKind
from dtsflow.po.operation import Draws, Image, Params, Pixels, Row, Sizes
from dtsflow.spec import ImageSpec

FLIP: Final = np.dtype([("flip", "?")])


@configurable
class RandomHorizontalFlip:
    """Mirror left to right with probability `p`; size and channels unchanged."""

    p: Annotated[float, Field(ge=0, le=1)] = 0.5

    @property
    def step(self) -> StepKind:
        """Return the core's step: mirror."""
        return StepKind.MIRROR

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        return Drawing(DrawKind.FLIP, (self.p,))

    @property
    def words(self) -> int:
        """Return one word: it flips where the draw is below `p`."""
        return 1

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing."""
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        """Choose the samples to flip."""
        return _flips(draws, len(sizes), self.p)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Copy the image, mirrored or not."""
        out[...] = image[:, ::-1] if params["flip"] else image


@configurable
class RandomVerticalFlip:
    """Mirror top to bottom with probability `p`; size and channels unchanged."""

    p: Annotated[float, Field(ge=0, le=1)] = 0.5

    @property
    def step(self) -> StepKind:
        """Return the core's step: read the rows from the last one up."""
        return StepKind.FLIP_ROWS

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        return Drawing(DrawKind.FLIP, (self.p,))

    @property
    def words(self) -> int:
        """Return one word: it flips where the draw is below `p`."""
        return 1

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing."""
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        """Choose the samples to flip."""
        return _flips(draws, len(sizes), self.p)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Copy the image, mirrored or not."""
        out[...] = image[::-1] if params["flip"] else image


def _flips(draws: Draws, count: int, p: float) -> Params:
    chosen = np.empty(count, FLIP)
    chosen["flip"] = draws.uniform(0) < p
    return chosen


@configurable
class DoNothing:
    """Leave the image as it is: a place in a chain, for an override to fill."""

    @property
    def step(self) -> StepKind:
        """Return the core's form: a flip that never happens."""
        return StepKind.FLIP_ROWS

    @property
    def drawing(self) -> Drawing:
        """Return the core's form: a flip that never happens."""
        return Drawing(DrawKind.FLIP, (0.0,))

    @property
    def words(self) -> int:
        """None: nothing is random."""
        return 0

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing."""
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:  # noqa: ARG002  # nothing is random
        """Choose nothing."""
        return np.zeros(len(sizes), FLIP)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:  # noqa: ARG002  # all of it
        """Copy the image."""
        out[...] = image
