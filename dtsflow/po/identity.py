"""Changing nothing, in a chain where an operation is expected."""

import numpy as np

from dtsflow.configurable import configurable
from dtsflow.native.drawing import Drawing, DrawKind
from dtsflow.native.steps import StepKind
from dtsflow.po.flip import FLIP
from dtsflow.po.operation import Draws, Image, Params, Pixels, Row, Sizes
from dtsflow.spec import ImageSpec


@configurable
class DoNothing:
    """Leave the image as it is: a place in a chain, for an override to fill."""

    @property
    def step(self) -> StepKind:
        """In the core: a flip that never happens."""
        return StepKind.FLIP_ROWS

    @property
    def drawing(self) -> Drawing:
        """In the core: a flip that never happens."""
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
