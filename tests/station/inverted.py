"""An operation for tests of chains that the compiled core cannot run whole."""

from dataclasses import dataclass

import numpy as np

from dtsflow.po.operation import NOTHING, Params, Pixels, Row, Sizes
from dtsflow.po.operation import Image as Picture
from dtsflow.seed.draws import Draws
from dtsflow.spec import ImageSpec


@dataclass(frozen=True)
class Inverted:
    """An operation that only Python can run."""

    words: int = 0

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        assert len(draws) == len(sizes)
        return np.empty(len(sizes), NOTHING)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:
        assert len(params) == len(sizes)
        return sizes

    def apply(self, image: Picture, out: Pixels, params: Row) -> None:
        assert params.dtype == NOTHING
        out[...] = 255 - image
