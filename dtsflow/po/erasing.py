"""Erasing a random box of what is written to the row."""

from typing import Final, Self

import numpy as np
from pydantic import model_validator

from dtsflow.config.configurable import configurable
from dtsflow.native.core import Drawing, DrawKind, StepKind
from dtsflow.po.crop import Fraction, Ratio
from dtsflow.po.geometry import Numbers, windows
from dtsflow.po.operation import Draws, Image, Params, Pixels, Probability, Row, Sizes
from dtsflow.seed.exact import exp, log
from dtsflow.spec import ImageSpec

ATTEMPTS: Final = 10
_WORDS: Final = 4  # an attempt's own: area, aspect ratio, y, x

MAY_FOLLOW: Final = frozenset(
    {
        StepKind.MIRROR,
        StepKind.FLIP_ROWS,
        StepKind.ERASE,
        StepKind.JITTER,
        StepKind.GRAYSCALE,
        StepKind.AUTOCONTRAST,
        StepKind.BLUR,
        StepKind.NOISE,
    }
)
"""Steps of operations that may stand behind: none moves a pixel but to mirror it."""


@configurable
class RandomErasing:
    """Set a random box of the finished row to zero with probability `p`.

    Wherever it stands, before or after Normalize, the box is one of what is written:
    erased elements are 0 there, after normalisation, as torchvision's and upstream's
    are. It is drawn by torchvision's distribution. An attempt draws the area, uniform
    in `scale` times the image's, and the aspect ratio (height / width), log-uniform in
    `ratio`; it fails where the box is empty, or as high or wide as the image. After ten
    failures nothing is erased.
    """

    p: Probability = 0.5
    scale: tuple[Fraction, Fraction] = (0.02, 0.33)
    ratio: tuple[Ratio, Ratio] = (0.3, 3.3)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for name, (low, high) in (("scale", self.scale), ("ratio", self.ratio)):
            if low > high:
                raise ValueError(f"{name} goes from {low} to {high}. Put the smaller one first.")
        return self

    @property
    def step(self) -> StepKind:
        """Return the core's step: zeros, in the final write."""
        return StepKind.ERASE

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        low, high = self.scale
        log_low, log_high = log(self.ratio[0]), log(self.ratio[1])
        return Drawing(DrawKind.ERASE, (self.p, low, high - low, log_low, log_high - log_low))

    @property
    def words(self) -> int:
        """Return one word for `p`, then four for each attempt, made or not."""
        return 1 + ATTEMPTS * _WORDS

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing."""
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        """Choose the boxes; an empty one where nothing is erased."""
        height, width = sizes.T
        h, w = self._shapes(draws, height * width)
        fits = (h > 0) & (h < height[:, None]) & (w > 0) & (w < width[:, None])
        first = fits.argmax(axis=1)
        rows = np.arange(len(sizes))
        erased = fits[rows, first] & (draws.uniform(0) < self.p)
        h, w = np.where(erased, (h[rows, first], w[rows, first]), 0)
        y = draws.integers(first * _WORDS + 3, height - h + 1)
        x = draws.integers(first * _WORDS + 4, width - w + 1)
        return windows(y * erased, x * erased, h, w)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Copy the image, and erase the box."""
        out[...] = image
        self.erase(out, params)

    def erase(self, out: Pixels, params: Row) -> None:
        """Set the box to zero, all channels."""
        y, x, height, width = params.item()
        out[y : y + height, x : x + width] = 0

    def _shapes(self, draws: Draws, area: Numbers) -> tuple[Numbers, Numbers]:
        """Height and width of every attempt's box: (n, attempts)."""
        first_words = 1 + np.arange(ATTEMPTS) * _WORDS
        low, high = self.scale
        target = area[:, None] * (low + draws.uniform(first_words) * (high - low))
        log_low, log_high = log(self.ratio[0]), log(self.ratio[1])
        ratio = exp(log_low + draws.uniform(first_words + 1) * (log_high - log_low))
        h, w = np.rint(np.sqrt(target * ratio)), np.rint(np.sqrt(target / ratio))
        return h.astype(np.int64), w.astype(np.int64)
