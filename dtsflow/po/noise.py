"""Adding noise to every pixel and channel."""

from typing import Annotated, Final

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dtsflow.configurable import configurable
from dtsflow.native.drawing import Drawing, DrawKind
from dtsflow.native.steps import StepKind
from dtsflow.po.operation import Draws, Image, Params, Pixels, Row, Sizes
from dtsflow.seed.normal import normals
from dtsflow.seed.philox import philox4x32
from dtsflow.spec import ImageSpec

NOISE: Final = np.dtype([("key", "<u4", (2,)), ("mean", "<f4"), ("sigma", "<f4")])
"""The key of a sample's random numbers, and how they are scaled."""

_PER_BLOCK: Final = 8  # 16-bit numbers of a Philox block


@configurable
class GaussianNoise:
    """Add normal noise, independent for each pixel and channel, in units of a value.

    x becomes x + rint(z * sigma + mean), kept in 0..255, with z of `seed.normal` and
    each step rounded to float32. Two words drawn for the sample are the key of a Philox
    of its own: byte j of row y, from 0, takes number j mod 8 of the eight 16-bit ones,
    the low half of a word first, of the block with counter (j div 8, y, 0, 0).
    (Upstream repeats the values of a small cache, so its noise is correlated; bytes
    cannot go unclipped, so there is no `clip`.)
    """

    mean: Annotated[float, Field(ge=-255, le=255)] = 0.0
    sigma: Annotated[float, Field(ge=0, le=1e4)] = 25.5

    @property
    def step(self) -> StepKind:
        """In the core: noise."""
        return StepKind.NOISE

    @property
    def drawing(self) -> Drawing:
        """In the core: the same."""
        return Drawing(DrawKind.NOISE, (self.mean, self.sigma))

    @property
    def words(self) -> int:
        """Two: the key."""
        return 2

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing."""
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        """Choose the keys."""
        chosen = np.empty(len(sizes), NOISE)
        chosen["key"] = draws.words
        chosen["mean"], chosen["sigma"] = self.mean, self.sigma
        return chosen

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Add the noise."""
        height, width, channels = image.shape
        low, high = params["key"].tolist()
        z = normals(_random_bits(height, width * channels, (low, high)))
        noise = np.rint(z * params["sigma"] + params["mean"]).astype(np.int32)
        out[...] = np.clip(image + noise.reshape(image.shape), 0, 255)


def _random_bits(rows: int, columns: int, key: tuple[int, int]) -> npt.NDArray[np.uint16]:
    """One 16-bit number for each byte: (rows, columns)."""
    blocks = -(-columns // _PER_BLOCK)
    counters = np.zeros((rows, blocks, 4), np.uint32)
    counters[..., 0] = np.arange(blocks)
    counters[..., 1] = np.arange(rows)[:, None]
    words = philox4x32(counters, key)
    halves = np.stack([words & 0xFFFF, words >> 16], axis=-1).astype(np.uint16)
    return halves.reshape(rows, -1)[:, :columns]
