"""Blurring an image, and adding noise to every pixel and channel.

The blur is separable, of exact integers. The weight at distance i from the middle is
exp(-i^2 / (2 sigma^2)) over the sum of all, rounded to 1/2^14; the middle's own is what
is left of one. Beyond the borders the image is reflected, without its border pixel
twice, again and again where it is narrow. The rows come first: their sum is rounded
half up to 1/256 of a pixel value. Then the columns: theirs to a whole one, half up.
"""

from typing import Annotated, Final, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from dtsflow.config.configurable import configurable
from dtsflow.native.core import Drawing, DrawKind, StepKind
from dtsflow.po.operation import Draws, Image, Params, Pixels, Row, Sizes
from dtsflow.seed.address import philox4x32
from dtsflow.seed.exact import EXP_LIMIT, exp, normals
from dtsflow.spec import ImageSpec

MOST_RADIUS: Final = 29  # what the 64 bytes of a step in the core have room for
BLUR: Final = np.dtype([("radius", "<i4"), ("weights", "<i2", (MOST_RADIUS + 1,))])
"""How far it reaches; the weight at each distance from the middle, in 1/2^14."""

Sigma = Annotated[float, Field(ge=1e-3, le=1e3)]
_BITS: Final = 14
_ONE: Final = 1 << _BITS
_BETWEEN_BITS: Final = 8  # more than a pixel has, between the passes
_ROOTS: Final = 4  # exp(x) is exp(x / 4)^4, since `exp` covers only -8..8


@configurable
class GaussianBlur:
    """Blur with a Gaussian of a deviation drawn uniformly from `sigma`, in pixels.

    `kernel_size`, odd, is how many pixels count in each direction. As torchvision's, to
    within one unit of a pixel; one number for `sigma` means that it is always that.
    (Upstream derives the size from sigma.)
    """

    kernel_size: Annotated[int, Field(ge=1, le=2 * MOST_RADIUS + 1)]
    sigma: Sigma | tuple[Sigma, Sigma] = (0.1, 2.0)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.kernel_size % 2 == 0:
            raise ValueError(
                f"kernel_size is {self.kernel_size}, and a pixel in the middle needs an odd "
                f"one. Give {self.kernel_size - 1} or {self.kernel_size + 1}."
            )
        low, high = self._range
        if low > high:
            raise ValueError(f"sigma goes from {low} to {high}. Put the smaller one first.")
        return self

    @property
    def step(self) -> StepKind:
        """Return the core's step: blur."""
        return StepKind.BLUR

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        low, high = self._range
        return Drawing(DrawKind.BLUR, (low, high - low, self.kernel_size // 2))

    @property
    def words(self) -> int:
        """Return one word: sigma."""
        return 1

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing."""
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        """Choose the weights."""
        low, high = self._range
        chosen = np.zeros(len(sizes), BLUR)
        chosen["radius"] = radius = self.kernel_size // 2
        sigma = low + draws.uniform(0) * (high - low)
        chosen["weights"][:, : radius + 1] = weights(sigma, radius)
        return chosen

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Blur the rows, then the columns."""
        kernel = params["weights"][: params["radius"] + 1].astype(np.int32)
        between = _summed(image.astype(np.int32), kernel, axis=0)
        between = _rounded(between, _BITS - _BETWEEN_BITS)
        out[...] = _rounded(_summed(between, kernel, axis=1), _BITS + _BETWEEN_BITS)

    @property
    def _range(self) -> tuple[float, float]:
        return self.sigma if isinstance(self.sigma, tuple) else (self.sigma, self.sigma)


def weights(sigma: npt.NDArray[np.float64], radius: int) -> npt.NDArray[np.int16]:
    """Return the weights at the distances 0 to `radius`, for each sigma.

    (n, radius + 1).
    """
    distance = np.arange(radius + 1, dtype=np.float64)
    power = distance * distance / (2.0 * sigma * sigma)[:, None]
    quarter = np.minimum(power / _ROOTS, EXP_LIMIT)
    heights = exp(-quarter)
    heights *= heights
    heights *= heights
    heights[quarter == EXP_LIMIT] = 0.0  # far below half of a weight's unit
    total = heights[:, 0].copy()
    for place in range(1, radius + 1):  # in this order, for each addition rounds
        total += 2.0 * heights[:, place]
    found = np.rint(heights * _ONE / total[:, None]).astype(np.int16)
    found[:, 0] = _ONE - 2 * found[:, 1:].sum(axis=1)
    return found


def _summed(values: npt.NDArray[np.int32], kernel: npt.NDArray[np.int32], *, axis: int) -> Pixels:
    size = values.shape[axis]
    places = np.arange(size)
    total: Pixels = kernel[0] * values
    for distance, weight in enumerate(kernel[1:], 1):
        for shifted in (places - distance, places + distance):
            total += weight * values.take(_reflected(shifted, size), axis=axis)
    return total


def _reflected(places: npt.NDArray[np.intp], size: int) -> npt.NDArray[np.intp]:
    """Places of a line of `size` that goes back and forth for ever."""
    if size == 1:
        return np.zeros_like(places)
    places = places % (2 * (size - 1))
    return np.minimum(places, 2 * (size - 1) - places)


def _rounded(values: Pixels, bits: int) -> Pixels:
    rounded: Pixels = (values + (1 << (bits - 1))) >> bits
    return rounded


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
    cannot go unclipped, so `clip` does not exist.)
    """

    mean: Annotated[float, Field(ge=-255, le=255)] = 0.0
    sigma: Annotated[float, Field(ge=0, le=1e4)] = 25.5

    @property
    def step(self) -> StepKind:
        """Return the core's step: noise."""
        return StepKind.NOISE

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        return Drawing(DrawKind.NOISE, (self.mean, self.sigma))

    @property
    def words(self) -> int:
        """Return two words: the key."""
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
    """Return one 16-bit number for each byte: (rows, columns)."""
    blocks = -(-columns // _PER_BLOCK)
    counters = np.zeros((rows, blocks, 4), np.uint32)
    counters[..., 0] = np.arange(blocks)
    counters[..., 1] = np.arange(rows)[:, None]
    words = philox4x32(counters, key)
    halves = np.stack([words & 0xFFFF, words >> 16], axis=-1).astype(np.uint16)
    return halves.reshape(rows, -1)[:, :columns]
