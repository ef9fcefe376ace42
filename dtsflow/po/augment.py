"""RandAugment and TrivialAugment: operations that are themselves drawn.

An augmentation runs one of several kinds of steps, chosen for each sample. The file
also has the pixel changes that they need: mapping each value of a pixel to another in
three ways of Pillow's, and sharpening or smoothing.

A row holds the number of a step of the core, and the row that an operation with that
step would have drawn. So the reference and the core each run what they have for it.

The kinds are torchvision's, in its order: Identity, ShearX, ShearY, TranslateX,
TranslateY, Rotate, Brightness, Color, Contrast, Sharpness, Posterize, Solarize,
AutoContrast, Equalize. Those that change values are Pillow's, bit for bit; those that
move pixels sample along an exact map (`warp`), about the top left corner for the
shears.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Annotated, Any, Final, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from dtsflow.config.configurable import configurable
from dtsflow.native.core import OWN_NUMBERS, Drawing, DrawKind, StepKind
from dtsflow.po.affine import MAP, Interpolation, look, maps, warp
from dtsflow.po.color import JITTER, NAMES, jitter, stretch
from dtsflow.po.operation import (
    CHANCE,
    Draws,
    Fill,
    Image,
    Params,
    Pixels,
    Row,
    Sizes,
    blend,
    check_fill,
    require_gray_or_rgb,
)
from dtsflow.seed.exact import sin_cos
from dtsflow.spec import ImageSpec

_LEVELS = 256
Table = npt.NDArray[np.uint8]


def posterize(image: Image, out: Pixels, bits: int) -> None:
    """Keep only the `bits` highest bits of each value, 0 to 8."""
    out[...] = image & (-(1 << (8 - bits)) & 0xFF)


def solarize(image: Image, out: Pixels, threshold: float) -> None:
    """Take values from `threshold` on from 255."""
    out[...] = np.where(image < np.float32(threshold), image, 255 - image)


def equalize(image: Image, out: Pixels) -> None:
    """Spread each channel's values, so that all become about equally frequent.

    With s the number of pixels, less those of the greatest value, div 255, the value x
    becomes (s div 2 + pixels below x) div s, at most 255. Where s is 0 nothing changes.
    """
    for channel in range(image.shape[2]):
        counts = np.bincount(image[..., channel].ravel(), minlength=_LEVELS)
        out[..., channel] = _spread(counts)[image[..., channel]]


def _spread(counts: npt.NDArray[np.int64]) -> Table:
    greatest = np.flatnonzero(counts)[-1]
    step = (counts.sum() - counts[greatest]) // 255
    if step == 0:
        return np.arange(_LEVELS, dtype=np.uint8)
    below = step // 2 + np.cumsum(counts) - counts
    table: Table = np.minimum(below // step, 255).astype(np.uint8)
    return table


_WEIGHT = 13  # of all nine pixels; the middle one's is 5


def sharpen(image: Image, out: Pixels, factor: np.float32) -> None:
    """Mix the image with a smoothed one: Pillow's `ImageEnhance.Sharpness`.

    A pixel is smoothed to the mean of itself, five times, and its eight neighbours,
    rounded to nearest; those of the border stay. `factor` 0 gives the smoothed image, 1
    the image, and what is beyond sharpens.
    """
    wide = image.astype(np.int32)
    height, width = image.shape[:2]
    smooth = wide.copy()
    total = 4 * wide[1:-1, 1:-1]
    for y in range(3):
        for x in range(3):
            total = total + wide[y : height - 2 + y, x : width - 2 + x]
    smooth[1:-1, 1:-1] = (2 * total + _WEIGHT) // (2 * _WEIGHT)
    out[...] = blend(smooth, wide, factor)


SUBSTEP: Final = np.dtype([("kind", "<i4"), ("own", "<i4", (OWN_NUMBERS - 1,))])
"""The step's number, or NONE, and the bytes of its own row."""

BITS: Final = np.dtype([("bits", "<i4")])
THRESHOLD: Final = np.dtype([("threshold", "<f4")])
FACTOR: Final = np.dtype([("factor", "<f4")])

NONE: Final = -1
"""The kind of a row that changes nothing."""


def fill_in(rows: Params, where: npt.NDArray[np.bool_], own: Params) -> None:
    """Give the rows at `where` the rows that their steps take, in order."""
    numbers = own.view(np.int32).reshape(len(own), -1)
    rows["own"][where, : numbers.shape[1]] = numbers


def apply_substep(image: Image, out: Pixels, row: Row) -> None:
    """Do what `row` says."""
    if row["kind"] == NONE:
        out[...] = image
        return
    dtype, change = _APPLY[StepKind(row["kind"])]
    own = np.frombuffer(row["own"].tobytes(), dtype, 1)[0]
    change(image, out, own)


_APPLY: Final[dict[StepKind, tuple[np.dtype[Any], Callable[[Image, Pixels, Row], None]]]] = {
    StepKind.WARP: (MAP, warp),
    StepKind.JITTER: (JITTER, jitter),
    StepKind.AUTOCONTRAST: (CHANCE, lambda image, out, _: stretch(image, out)),
    StepKind.POSTERIZE: (BITS, lambda image, out, row: posterize(image, out, int(row["bits"]))),
    StepKind.SOLARIZE: (
        THRESHOLD,
        lambda image, out, row: solarize(image, out, float(row["threshold"])),
    ),
    StepKind.EQUALIZE: (CHANCE, lambda image, out, _: equalize(image, out)),
    StepKind.SHARPEN: (FACTOR, lambda image, out, row: sharpen(image, out, row["factor"])),
}


class Augmentation(IntEnum):
    """One that may be drawn, with its place among them."""

    IDENTITY = 0
    SHEAR_X = 1
    SHEAR_Y = 2
    TRANSLATE_X = 3
    TRANSLATE_Y = 4
    ROTATE = 5
    BRIGHTNESS = 6
    COLOR = 7
    CONTRAST = 8
    SHARPNESS = 9
    POSTERIZE = 10
    SOLARIZE = 11
    AUTOCONTRAST = 12
    EQUALIZE = 13


_KINDS: Final = np.array(
    [
        NONE,
        *[StepKind.WARP] * 5,
        *[StepKind.JITTER] * 3,
        StepKind.SHARPEN,
        StepKind.POSTERIZE,
        StepKind.SOLARIZE,
        StepKind.AUTOCONTRAST,
        StepKind.EQUALIZE,
    ],
    np.int32,
)
_CHANGES: Final = np.array([-1] * 6 + [0, 2, 1] + [-1] * 5)
"""The place in jitter's NAMES of those that mix; -1 for the others."""

Which = npt.NDArray[np.int64]
"""For each sample the number of its augmentation."""

Floats = npt.NDArray[np.float64]


def is_signed(which: Which) -> npt.NDArray[np.bool_]:
    """Return where the magnitude is drawn with a sign."""
    return (which >= Augmentation.SHEAR_X) & (which <= Augmentation.SHARPNESS)


def substeps(
    which: Which,
    magnitude: Floats,
    sizes: Sizes,
    *,
    interpolation: Interpolation,
    fill: Fill,
) -> Params:
    """Give each sample's augmentation, of its magnitude, as a row of SUBSTEP.

    The magnitude is a slope for the shears, whole pixels (cut) for the translations,
    degrees counter-clockwise for the rotation, the factor less one for the four that
    mix, bits for Posterize, and the threshold for Solarize.
    """
    made = np.zeros(len(which), SUBSTEP)
    made["kind"] = _KINDS[which]
    factor = (1.0 + magnitude).astype(np.float32)
    # Those with one number, or with none, whose row then says that they happen.
    number = np.where(which == Augmentation.POSTERIZE, np.trunc(magnitude), 1).astype(np.int32)
    number = np.where(
        which == Augmentation.SOLARIZE, magnitude.astype(np.float32).view(np.int32), number
    )
    made["own"][:, 0] = np.where(which == Augmentation.SHARPNESS, factor.view(np.int32), number)
    if (mixed := _CHANGES[which] >= 0).any():
        fill_in(made, mixed, _mixes(_CHANGES[which[mixed]], factor[mixed]))
    if (moved := made["kind"] == StepKind.WARP).any():
        own = _maps(which[moved], magnitude[moved], sizes[moved], interpolation, fill)
        fill_in(made, moved, own)
    return made


def _mixes(change: Which, factor: npt.NDArray[np.float32]) -> Params:
    made = np.zeros(len(change), JITTER)
    made["order"] = -1
    made["order"][:, 0] = change
    for number, name in enumerate(NAMES[:3]):
        made[name] = np.where(change == number, factor, 0)
    return made


def _maps(
    which: Which,
    magnitude: Floats,
    sizes: Sizes,
    interpolation: Interpolation,
    fill: Fill,
) -> Params:
    height, width = sizes.T
    sine, cosine = sin_cos(np.where(which == Augmentation.ROTATE, magnitude, 0.0))
    slope_x = np.where(which == Augmentation.SHEAR_X, magnitude, 0.0)
    slope_y = np.where(which == Augmentation.SHEAR_Y, magnitude, 0.0)
    linear = (cosine, slope_x - sine, slope_y + sine, cosine)
    # `maps` shears about the centre; so far the corner would move then.
    shift_x = np.where(
        which == Augmentation.TRANSLATE_X, np.trunc(magnitude), -0.5 * slope_x * height
    )
    shift_y = np.where(
        which == Augmentation.TRANSLATE_Y, np.trunc(magnitude), -0.5 * slope_y * width
    )
    return maps(linear, sizes, shift=(shift_x, shift_y), sampling=interpolation, fill=fill)


Bins = Annotated[int, Field(ge=2, le=1 << 16)]
Place = int | npt.NDArray[np.int64]

_TRANSLATE: Final = 150.0 / 331.0  # of a side, as the paper's 150 of 331 pixels
# The greatest magnitudes, but for those of RandAugment that a side's length gives.
_MOST: Final = np.array([0, 0.3, 0.3, 0, 0, 30, *[0.9] * 4, 0, 0, 0, 0])
_MOST_WIDE: Final = np.array([0, 0.99, 0.99, 32, 32, 135, *[0.99] * 4, 0, 0, 0, 0])
_WORDS: Final = 2  # of one of RandAugment's: which, and its sign


@configurable
class RandAugment:
    """Change an image by `num_ops` of fourteen augmentations, one after another.

    As torchvision's, defaults included: each is drawn from all fourteen, with
    `magnitude` of `num_magnitude_bins` as its strength, and a random sign where there
    can be one. The strengths are evenly spaced, rounded to float32; torch's miss that
    by a last bit here and there, and with it may a translation by a pixel.
    """

    num_ops: Annotated[int, Field(ge=1, le=16)] = 2
    magnitude: Annotated[int, Field(ge=0)] = 9
    num_magnitude_bins: Bins = 31
    interpolation: Interpolation = "nearest"
    fill: Fill = 0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.magnitude >= self.num_magnitude_bins:
            raise ValueError(
                f"magnitude is {self.magnitude} and num_magnitude_bins {self.num_magnitude_bins}. "
                f"Give a magnitude from 0 to {self.num_magnitude_bins - 1}."
            )
        return self

    @property
    def step(self) -> StepKind:
        """Return the core's step: one of several kinds."""
        return StepKind.AUGMENT

    @property
    def steps(self) -> int:
        """Return how many such steps."""
        return self.num_ops

    @property
    def drawing(self) -> tuple[Drawing, ...]:
        """Return the core's drawing of the same."""
        bins, shown = self.num_magnitude_bins, look(self.interpolation, self.fill)
        return tuple(
            Drawing(DrawKind.RAND_AUGMENT, (word, self.magnitude, bins, *shown))
            for word in range(0, self.words, _WORDS)
        )

    @property
    def words(self) -> int:
        """Return two words for each augmentation: which one, and its sign."""
        return _WORDS * self.num_ops

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing.

        Raises:
            PlanError: The images are neither gray nor RGB, or `fill` is not for them.
        """
        return _checked(spec, self.fill)

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        """Choose the augmentations."""
        # All of a chunk at once: many small arrays cost many times more.
        first_words = range(0, self.words, _WORDS)
        drawn = [draws.integers(word, len(Augmentation)) for word in first_words]
        signs = [draws.integers(word + 1, 2) for word in first_words]
        which, each = np.stack(drawn, axis=1).ravel(), sizes.repeat(self.num_ops, axis=0)
        magnitude = self._magnitudes(which, each)
        negative = is_signed(which) & (np.stack(signs, axis=1).ravel() == 1)
        rows = substeps(
            which,
            np.where(negative, -magnitude, magnitude),
            each,
            interpolation=self.interpolation,
            fill=self.fill,
        )
        return rows.view(np.dtype([("steps", SUBSTEP, (self.num_ops,))]))

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Make the changes, one after another."""
        for row in params["steps"][:-1]:
            between = np.empty_like(image)
            apply_substep(image, between, row)
            image = between
        apply_substep(image, out, params["steps"][-1])

    def _magnitudes(self, which: Which, sizes: Sizes) -> Floats:
        height, width = sizes.T
        ends = _MOST[which]
        ends = np.where(which == Augmentation.TRANSLATE_X, _TRANSLATE * width, ends)
        ends = np.where(which == Augmentation.TRANSLATE_Y, _TRANSLATE * height, ends)
        return _magnitudes(which, ends, self.magnitude, self.num_magnitude_bins, lost=4)


@configurable
class TrivialAugmentWide:
    """Change an image by one of fourteen augmentations, of a random strength.

    As torchvision's, defaults included: the augmentation, one of `num_magnitude_bins`
    strengths, and the sign where there can be one, are drawn alike often.
    """

    num_magnitude_bins: Bins = 31
    interpolation: Interpolation = "nearest"
    fill: Fill = 0

    @property
    def step(self) -> StepKind:
        """Return the core's step: one of several kinds."""
        return StepKind.AUGMENT

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        shown = look(self.interpolation, self.fill)
        return Drawing(DrawKind.TRIVIAL_AUGMENT, (self.num_magnitude_bins, *shown))

    @property
    def words(self) -> int:
        """Three: which one, its strength, and its sign."""
        return 3

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing.

        Raises:
            PlanError: The images are neither gray nor RGB, or `fill` is not for them.
        """
        return _checked(spec, self.fill)

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        """Choose the augmentations."""
        bins = self.num_magnitude_bins
        which, place = draws.integers(0, len(Augmentation)), draws.integers(1, bins)
        magnitude = _magnitudes(which, _MOST_WIDE[which], place, bins, lost=6)
        negative = is_signed(which) & (draws.integers(2, 2) == 1)
        return substeps(
            which,
            np.where(negative, -magnitude, magnitude),
            sizes,
            interpolation=self.interpolation,
            fill=self.fill,
        )

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Make the change."""
        apply_substep(image, out, params)


def _checked(spec: ImageSpec, fill: Fill) -> ImageSpec:
    require_gray_or_rgb(spec)
    check_fill(fill, spec.channels)
    return spec


def _magnitudes(
    which: Which, ends: npt.NDArray[np.floating], place: Place, bins: int, *, lost: int
) -> Floats:
    """Magnitude number `place` of each augmentation; `ends` are the greatest ones.

    Posterize loses up to `lost` bits; Solarize's threshold falls from 255.
    """
    part = place / (bins - 1)
    bits = 8.0 - np.rint(part * lost)
    found = np.where(which == Augmentation.POSTERIZE, bits, part * ends)
    found = np.where(which == Augmentation.SOLARIZE, 255.0 * (1.0 - part), found)
    return found.astype(np.float32).astype(np.float64)
