"""Cutting a window out: at random and scaled, or from the centre; adding a margin.

A random window may be chosen as upstream's FastRandomResizedCrop chooses it.
"""

from typing import Annotated, Final, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from dtsflow.config.configurable import configurable
from dtsflow.native.core import Drawing, DrawKind, StepKind
from dtsflow.po.geometry import (
    Border,
    Numbers,
    Padding,
    Size,
    border_numbers,
    cut,
    frame_step,
    frames,
    margins,
    resample,
    same_size,
    sides,
    windows,
)
from dtsflow.po.operation import Draws, Fill, Image, Params, Pixels, Row, Sizes, check_fill
from dtsflow.seed.exact import exp, log
from dtsflow.spec import ImageSpec

ATTEMPTS: Final = 10
_WORDS: Final = 4  # an attempt's own: area, aspect ratio, x, y
Floats = npt.NDArray[np.float64]
Fraction = Annotated[float, Field(gt=0, le=1)]
Ratio = Annotated[float, Field(ge=1e-3, le=1e3)]


@configurable
class RandomResizedCrop:
    """Cut a random window, by torchvision's distribution, and scale it to `size`.

    An attempt draws the window's area, uniform in `scale` times the image's, and its
    aspect ratio (width / height), log-uniform in `ratio`; it fails where the window
    does not fit. After ten failures it is the largest centred one of an allowed ratio.
    """

    size: Size
    scale: tuple[Fraction, Fraction] = (0.08, 1.0)
    ratio: tuple[Ratio, Ratio] = (3 / 4, 4 / 3)
    antialias: bool = True

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for name, (low, high) in (("scale", self.scale), ("ratio", self.ratio)):
            if low > high:
                raise ValueError(f"{name} goes from {low} to {high}. Put the smaller one first.")
        return self

    @property
    def step(self) -> StepKind:
        """Return the core's step: cut and scale."""
        return StepKind.SCALE if self.antialias else StepKind.SCALE_PLAIN

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        low, high = self.scale
        return Drawing(DrawKind.RESIZED_CROP, (*sides(self.size), low, high - low, *self._ratios()))

    @property
    def words(self) -> int:
        """Four for each attempt, whether it is made or not."""
        return ATTEMPTS * _WORDS

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Fix the size."""
        return ImageSpec(*sides(self.size), spec.channels, spec.dtype)

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        """Choose the windows."""
        height, width = sizes.T
        # All attempts at once, one a column: many small arrays cost many times more.
        h, w = self._shapes(draws, height * width)
        fits = (h > 0) & (h <= height[:, None]) & (w > 0) & (w <= width[:, None])
        first = fits.argmax(axis=1)
        rows = np.arange(len(sizes))
        h, w = h[rows, first], w[rows, first]
        # Where none fits the range may be empty, and what is drawn is not used.
        x = draws.integers(first * _WORDS + 2, np.maximum(width - w, 0) + 1)
        y = draws.integers(first * _WORDS + 3, np.maximum(height - h, 0) + 1)
        chosen = windows(y, x, h, w)
        if not (found := fits[rows, first]).all():
            chosen[~found] = self._fallback(height, width)[~found]
        return chosen

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # all alike
        """Give `size` for every sample."""
        return same_size(len(sizes), *sides(self.size))

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Cut the window and scale it to fill `out`; no pixel outside it counts."""
        y, x, height, width = params.item()
        resample(image[y : y + height, x : x + width], out, antialias=self.antialias)

    def _shapes(self, draws: Draws, area: Numbers) -> tuple[Numbers, Numbers]:
        """Height and width of every attempt's window: (n, attempts)."""
        # In steps that each round correctly, so that no machine rounds one differently.
        first_words = np.arange(ATTEMPTS) * _WORDS
        target = area[:, None] * self._shares(draws.uniform(first_words))
        log_low, log_high = log(self.ratio[0]), log(self.ratio[1])
        ratio = exp(log_low + draws.uniform(first_words + 1) * (log_high - log_low))
        return _rounded(np.sqrt(target / ratio)), _rounded(np.sqrt(target * ratio))

    def _ratios(self) -> tuple[float, float, float, float]:
        """Return what the core takes of the aspect ratios."""
        low, high = self.ratio
        return (log(low), log(high) - log(low), low, high)

    def _shares(self, uniform: Floats) -> Floats:
        """Return the window's area as a part of the image's."""
        low, high = self.scale
        return low + uniform * (high - low)

    def _fallback(self, height: Numbers, width: Numbers) -> Params:
        narrowest, widest = self.ratio
        in_ratio = width / height
        h = np.where(in_ratio < narrowest, _rounded(width / narrowest), height)
        w = np.where(in_ratio > widest, _rounded(height * widest), width)
        # Extreme ratios of tiny images round to nothing; torchvision fails on those.
        h, w = np.maximum(h, 1), np.maximum(w, 1)
        return windows((height - h) // 2, (width - w) // 2, h, w)


@configurable
class CenterCrop:
    """Cut `size` from the centre, padding with zeros where the image is smaller.

    As torchvision's: an odd margin puts the window at the even one of its two places,
    an odd padding goes to the right and the bottom. `compat: upstream` puts the window
    at the first of the two places.
    """

    size: Size
    compat: Literal["torchvision", "upstream"] = "torchvision"

    @property
    def step(self) -> StepKind:
        """Return the core's step: cut, with zeros around."""
        return StepKind.CROP

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        return Drawing(DrawKind.CENTRE_CROP, (*sides(self.size), self.compat == "upstream"))

    @property
    def words(self) -> int:
        """None: nothing is random."""
        return 0

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Fix the size."""
        return ImageSpec(*sides(self.size), spec.channels, spec.dtype)

    def draw(self, draws: Draws, sizes: Sizes) -> Params:  # noqa: ARG002  # nothing is random
        """Place the windows; y and x are negative where there is padding."""
        height, width = sides(self.size)
        centre = _centre if self.compat == "torchvision" else _first_centre
        return windows(centre(sizes[:, 0], height), centre(sizes[:, 1], width), height, width)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # all alike
        """Give `size` for every sample."""
        return same_size(len(sizes), *sides(self.size))

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Copy what the window holds of the image, and zeros around it."""
        cut(image, out, params)


@configurable
class RandomCrop:
    """Cut a window of `size` at a random place of the image, padded where need be.

    `padding` is added first; it and what it shows are as in `Pad`. A side still shorter
    than the window gets as much more on both ends as it is short, as torchvision's
    `pad_if_needed` has it; mirroring goes on there, where torchvision's starts anew.
    `compat: upstream` gives both sides what the one that lacks more gets.
    """

    size: Size
    padding: Padding = 0
    fill: Fill = 0
    padding_mode: Border = "constant"
    compat: Literal["torchvision", "upstream"] = "torchvision"

    @property
    def step(self) -> StepKind:
        """Return the core's step: cut, with the border around."""
        return frame_step(self.padding_mode, self.fill)

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        left, top, right, bottom = margins(self.padding)
        margin = (top, left, top + bottom, left + right)
        border = border_numbers(self.padding_mode, self.fill)
        is_upstream = self.compat == "upstream"
        return Drawing(DrawKind.CROP, (*sides(self.size), *margin, is_upstream, *border))

    @property
    def words(self) -> int:
        """Return two words: y, then x."""
        return 2

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Fix the size.

        Raises:
            PlanError: `fill` is for another number of channels.
        """
        check_fill(self.fill, spec.channels)
        return ImageSpec(*sides(self.size), spec.channels, spec.dtype)

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        """Place the windows; y and x are negative where there is padding."""
        left, top, right, bottom = margins(self.padding)
        window = sides(self.size)
        padded = sizes + np.array([top + bottom, left + right])
        lacks = np.maximum(window - padded, 0)
        if self.compat == "upstream":
            lacks[...] = lacks.max(axis=1, keepdims=True)
        free = padded + 2 * lacks - window + 1
        y = draws.integers(0, free[:, 0]) - top - lacks[:, 0]
        x = draws.integers(1, free[:, 1]) - left - lacks[:, 1]
        return frames(windows(y, x, *window), self.padding_mode, self.fill)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # all alike
        """Give `size` for every sample."""
        return same_size(len(sizes), *sides(self.size))

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Copy what the window holds of the image, and its surroundings."""
        cut(image, out, params)


def _rounded(values: npt.NDArray[np.floating]) -> Numbers:
    return np.asarray(np.rint(values), np.int64)  # half to even, as Python's round


def _centre(side: Numbers, window: int) -> Numbers:
    margin = side - window
    # Half of an odd margin rounds to even, as Python's round does.
    inside = margin // 2 + (margin & (margin // 2) & 1)
    place: Numbers = np.where(margin < 0, -((-margin) // 2), inside)
    return place


def _first_centre(side: Numbers, window: int) -> Numbers:
    margin = side - window
    place: Numbers = np.where(margin < 0, -((-margin) // 2), margin // 2)
    return place


CoarseFraction = Annotated[float, Field(ge=1e-3, le=1)]


@configurable
class FastRandomResizedCrop(RandomResizedCrop):
    """As RandomResizedCrop, but the area is log-uniform in `scale`: more small windows.

    This is upstream's, where each image is decoded for each epoch.
    """

    scale: tuple[CoarseFraction, CoarseFraction] = (0.08, 1.0)

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        low, high = (log(end) for end in self.scale)
        return Drawing(
            DrawKind.LOG_RESIZED_CROP, (*sides(self.size), low, high - low, *self._ratios())
        )

    def _shares(self, uniform: Floats) -> Floats:
        low, high = (log(end) for end in self.scale)
        return exp(low + uniform * (high - low))


@configurable
class Pad:
    """Add margins, as torchvision's: (left, top, right, bottom), or fewer numbers.

    `padding_mode` says what they show: `fill` in `constant`, else the image's own
    pixels. Upstream's bands that read themselves, in its reflect and symmetric, are
    mended.
    """

    padding: Padding
    fill: Fill = 0
    padding_mode: Border = "constant"

    @property
    def step(self) -> StepKind:
        """Return the core's step: cut, with the border around."""
        return frame_step(self.padding_mode, self.fill)

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        left, top, right, bottom = margins(self.padding)
        border = border_numbers(self.padding_mode, self.fill)
        return Drawing(DrawKind.PAD, (top, left, top + bottom, left + right, *border))

    @property
    def words(self) -> int:
        """None: nothing is random."""
        return 0

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Add the margins to what is known of the size.

        Raises:
            PlanError: `fill` is for another number of channels.
        """
        check_fill(self.fill, spec.channels)
        left, top, right, bottom = margins(self.padding)
        height = None if spec.height is None else spec.height + top + bottom
        width = None if spec.width is None else spec.width + left + right
        return ImageSpec(height, width, spec.channels, spec.dtype)

    def draw(self, draws: Draws, sizes: Sizes) -> Params:  # noqa: ARG002  # nothing is random
        """Give the windows, each larger than its image."""
        left, top, _, _ = margins(self.padding)
        height, width = self._padded(sizes).T
        around = windows(np.full_like(height, -top), np.full_like(width, -left), height, width)
        return frames(around, self.padding_mode, self.fill)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # by size alone
        """Add the margins."""
        return self._padded(sizes)

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Copy the image, and fill the margins."""
        cut(image, out, params)

    def _padded(self, sizes: Sizes) -> Sizes:
        left, top, right, bottom = margins(self.padding)
        padded: Sizes = sizes + np.array([top + bottom, left + right])
        return padded
