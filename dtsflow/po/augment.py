"""Augmenting by operations that are themselves drawn."""

from typing import Annotated, Final, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from dtsflow.configurable import configurable
from dtsflow.native.drawing import Drawing, DrawKind
from dtsflow.native.steps import StepKind
from dtsflow.po import substep
from dtsflow.po.affine import Interpolation
from dtsflow.po.augmentation import Augmentation, Which, is_signed, substeps
from dtsflow.po.channels import require_gray_or_rgb
from dtsflow.po.fill import Fill, check_fill
from dtsflow.po.operation import Draws, Image, Params, Pixels, Row, Sizes
from dtsflow.po.substep import SUBSTEP
from dtsflow.po.warp import look
from dtsflow.spec import ImageSpec

Bins = Annotated[int, Field(ge=2, le=1 << 16)]
Floats = npt.NDArray[np.float64]
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
        """In the core: one step of several kinds."""
        return StepKind.AUGMENT

    @property
    def steps(self) -> int:
        """How many such steps."""
        return self.num_ops

    @property
    def drawing(self) -> tuple[Drawing, ...]:
        """In the core: the same."""
        bins, shown = self.num_magnitude_bins, look(self.interpolation, self.fill)
        return tuple(
            Drawing(DrawKind.RAND_AUGMENT, (word, self.magnitude, bins, *shown))
            for word in range(0, self.words, _WORDS)
        )

    @property
    def words(self) -> int:
        """Two for each augmentation: which one, and its sign."""
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
            substep.apply(image, between, row)
            image = between
        substep.apply(image, out, params["steps"][-1])

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
        """In the core: one step of several kinds."""
        return StepKind.AUGMENT

    @property
    def drawing(self) -> Drawing:
        """In the core: the same."""
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
        substep.apply(image, out, params)


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
