"""Turning an image, and moving, scaling and shearing it at random."""

from typing import Annotated, Final, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dtsflow.configurable import configurable
from dtsflow.native.drawing import Drawing, DrawKind
from dtsflow.native.steps import StepKind
from dtsflow.po.fill import Fill, check_fill
from dtsflow.po.operation import Draws, Image, Params, Pixels, Row, Sizes
from dtsflow.po.warp import Floats, Sampling, look, maps, warp
from dtsflow.seed.exact import sin_cos
from dtsflow.spec import ImageSpec

Interpolation = Literal["nearest", "bilinear"]
Angle = Annotated[float, Field(ge=-360, le=360)]
Span = Annotated[float, Field(ge=0, le=360)] | tuple[Angle, Angle]
"""Degrees as configured: d for -d..d, or (from, to)."""
Slant = Annotated[float, Field(ge=-80, le=80)]
Shear = (
    Annotated[float, Field(ge=0, le=80)] | tuple[Slant, Slant] | tuple[Slant, Slant, Slant, Slant]
)
Part = Annotated[float, Field(ge=0, le=1)]
Factor = Annotated[float, Field(ge=0.01, le=100)]

_STILL: Final = 0.05  # degrees: upstream leaves the image alone below


@configurable
class RandomRotation:
    """Turn an image about its centre, counter-clockwise, by an angle of `degrees`.

    As torchvision's: the angle is uniform, the size stays, what turns out of it is
    lost, and `fill` shows where nothing turns in. `compat: upstream` has the pixels at
    whole numbers, so that the centre is half a pixel off, and leaves angles below 0.05
    alone.
    """

    degrees: Span = 30.0
    interpolation: Interpolation = "nearest"
    fill: Fill = 0
    compat: Literal["torchvision", "upstream"] = "torchvision"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _check_order("degrees", self.degrees)
        if self.compat == "upstream" and self.interpolation != "bilinear":
            raise ValueError(
                "compat: upstream samples bilinearly, and interpolation is "
                f"{self.interpolation}. Say interpolation: bilinear."
            )
        return self

    @property
    def sampling(self) -> Sampling:
        """How a point becomes a pixel."""
        return "corner" if self.compat == "upstream" else self.interpolation

    @property
    def step(self) -> StepKind:
        """In the core: sample along a map."""
        return StepKind.WARP

    @property
    def drawing(self) -> Drawing:
        """In the core: the same."""
        low, high = _ends(self.degrees)
        is_upstream = self.compat == "upstream"
        shown = look(self.sampling, self.fill)
        return Drawing(DrawKind.ROTATE, (low, high - low, is_upstream, *shown))

    @property
    def words(self) -> int:
        """One: the angle."""
        return 1

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing.

        Raises:
            PlanError: `fill` is for another number of channels.
        """
        check_fill(self.fill, spec.channels)
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        """Choose the angles, as maps."""
        angle = _between(_ends(self.degrees), draws.uniform(0))
        if self.compat == "upstream":
            angle = np.where(np.abs(angle) < _STILL, 0.0, angle)
        sine, cosine = sin_cos(angle)
        return maps((cosine, -sine, sine, cosine), sizes, sampling=self.sampling, fill=self.fill)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Fill `out` with the turned image."""
        warp(image, out, params)


@configurable
class RandomAffine:
    """Turn, move, scale and shear an image about its centre, as torchvision's.

    The angle, clockwise, is uniform in `degrees`; the move, in whole pixels, up to
    `translate` times the width and the height either way; the factor uniform in
    `scale`; the shear uniform in `shear` degrees: s for -s..s along x, (from, to) along
    x, or (from, to, from, to) along x and y. The size is unchanged.
    """

    degrees: Span
    translate: tuple[Part, Part] | None = None
    scale: tuple[Factor, Factor] | None = None
    shear: Shear | None = None
    interpolation: Interpolation = "nearest"
    fill: Fill = 0

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _check_order("degrees", self.degrees)
        _check_order("scale", self.scale)
        if isinstance(self.shear, tuple):
            _check_order("shear", self.shear[:2])
            _check_order("shear", self.shear[2:])
        return self

    @property
    def step(self) -> StepKind:
        """In the core: sample along a map."""
        return StepKind.WARP

    @property
    def drawing(self) -> Drawing:
        """In the core: the same."""
        ranges = (_ends(self.degrees), self.scale or (1.0, 1.0), *_shears(self.shear))
        degrees, *others = ((low, high - low) for low, high in ranges)
        far = self.translate or (0.0, 0.0)
        spans = (number for span in others for number in span)
        shown = look(self.interpolation, self.fill)
        return Drawing(DrawKind.AFFINE, (*degrees, *far, *spans, *shown))

    @property
    def words(self) -> int:
        """Six: angle, move along x and y, factor, shear along x and y."""
        return 6

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Change nothing.

        Raises:
            PlanError: `fill` is for another number of channels.
        """
        check_fill(self.fill, spec.channels)
        return spec

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        """Choose the maps."""
        angle = _between(_ends(self.degrees), draws.uniform(0))
        height, width = sizes.T
        far_x, far_y = self.translate or (0.0, 0.0)
        shift = (
            np.rint(far_x * width * (2.0 * draws.uniform(1) - 1.0)),
            np.rint(far_y * height * (2.0 * draws.uniform(2) - 1.0)),
        )
        factor = _between(self.scale or (1.0, 1.0), draws.uniform(3))
        along_x, along_y = _shears(self.shear)
        shear = (_between(along_x, draws.uniform(4)), _between(along_y, draws.uniform(5)))
        linear = backwards(angle, factor, shear)
        return maps(linear, sizes, shift=shift, sampling=self.interpolation, fill=self.fill)

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:  # noqa: ARG002  # unchanged
        """Change nothing."""
        return sizes

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Fill `out` with the moved image."""
        warp(image, out, params)


def backwards(
    angle: Floats, factor: Floats, shear: tuple[Floats, Floats]
) -> tuple[Floats, Floats, Floats, Floats]:
    """The linear part of a map from output to image, of clockwise degrees and factors.

    With a the angle, sx and sy the shears and f the factor, it is torchvision's

        xx = (cos a - sin(a - sy) tan sx / cos sy) / f
        xy = (sin a + cos(a - sy) tan sx / cos sy) / f
        yx = -sin(a - sy) / (cos sy f)
        yy = cos(a - sy) / (cos sy f).
    """
    sine, cosine = sin_cos(angle)
    sine_x, cosine_x = sin_cos(shear[0])
    _, cosine_y = sin_cos(shear[1])
    tilted_sine, tilted_cosine = sin_cos(angle - shear[1])
    tilted_sine, tilted_cosine = tilted_sine / cosine_y, tilted_cosine / cosine_y
    slope = sine_x / cosine_x
    return (
        (cosine - tilted_sine * slope) / factor,
        (sine + tilted_cosine * slope) / factor,
        -tilted_sine / factor,
        tilted_cosine / factor,
    )


def _between(ends: tuple[float, float], uniform: Floats) -> Floats:
    low, high = ends
    return low + uniform * (high - low)


def _ends(span: Span) -> tuple[float, float]:
    return span if isinstance(span, tuple) else (-span, span)


def _shears(shear: Shear | None) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ranges along x and along y."""
    if shear is None:
        return (0.0, 0.0), (0.0, 0.0)
    if not isinstance(shear, tuple):
        return (-shear, shear), (0.0, 0.0)
    return shear[:2], shear[2:] or (0.0, 0.0)


def _check_order(name: str, span: float | tuple[float, ...] | None) -> None:
    if isinstance(span, tuple) and span and span[0] > span[1]:
        raise ValueError(f"{name} goes from {span[0]} to {span[1]}. Put the smaller one first.")
