"""Turning an image, and moving, scaling and shearing it at random.

An image is sampled along an affine map in integers, so that every machine agrees.

The map goes backwards, from the output to the image: pixel (x, y) of the output shows
the image at the point

    X = xx * x + xy * y + x0,    Y = yx * x + yy * y + y0,

whole numbers in units of 2^-24 of a pixel, where a pixel of the image covers the points
from its own number up to the next. A point outside the image shows the fill colour.

    nearest   the pixel that covers the point.
    bilinear  the four pixels whose centres are around it, edges repeated: with
              p = X - 2^23, lo = floor(p / 2^24) and hi = lo + 1. The weight of hi is
              the fraction in 11 bits, rounded half up: (p mod 2^24 + 2^12) div 2^13;
              that of lo is 2048 less it. Both directions are summed without rounding,
              and the result is rounded once, half up: (sum + 2^21) div 2^22.
    corner    as bilinear, with p = X: upstream's, whose pixels lie at whole numbers.

Pillow computes the same points in float, or in steps of 2^-16 that add up; where they
lie on the other side of a pixel's edge, `nearest` differs from it.
"""

from typing import Annotated, Final, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from dtsflow.config.configurable import configurable
from dtsflow.native.core import Drawing, DrawKind, StepKind
from dtsflow.po.geometry import WEIGHT_BITS
from dtsflow.po.operation import (
    MOST_CHANNELS,
    Draws,
    Fill,
    Image,
    Params,
    Pixels,
    Row,
    Sizes,
    check_fill,
    colour,
    packed,
)
from dtsflow.seed.exact import sin_cos
from dtsflow.spec import ImageSpec

POINT_BITS: Final = 24
Sampling = Literal["nearest", "bilinear", "corner"]
SAMPLINGS: Final[tuple[Sampling, ...]] = ("nearest", "bilinear", "corner")
"""Their numbers in the core; Sampling of geometry.hpp has the same."""

MAP: Final = np.dtype(
    [
        *((name, "<i8") for name in ("xx", "xy", "x0", "yx", "yy", "y0")),
        ("sampling", "<i4"),
        ("fill", "u1", MOST_CHANNELS),
    ]
)
"""An affine map in 2^-24 of a pixel, and how it is sampled; Map of geometry.hpp."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_ONE: Final = 1 << WEIGHT_BITS
_ROUND: Final = 1 << (2 * WEIGHT_BITS - 1)


def maps(
    linear: tuple[Floats, Floats, Floats, Floats],
    sizes: Sizes,
    *,
    shift: tuple[Floats, Floats] | None = None,
    sampling: Sampling = "nearest",
    fill: Fill = 0,
) -> Params:
    """Turn the linear parts (xx, xy, yx, yy) about the images' centres.

    The output is as large as the image. `shift` moves the picture by whole or broken
    pixels (to the right, down) after the linear part.
    """
    xx, xy, yx, yy = linear
    height, width = sizes.T
    centre_x, centre_y = width * 0.5, height * 0.5
    middle = 0.0 if sampling == "corner" else 0.5  # where the first pixel lies
    from_x, from_y = middle - centre_x, middle - centre_y
    if shift is not None:
        from_x, from_y = from_x - shift[0], from_y - shift[1]
    made = np.empty(len(sizes), MAP)
    made["sampling"], made["fill"] = SAMPLINGS.index(sampling), colour(fill)
    values = {
        "xx": xx,
        "xy": xy,
        "x0": xx * from_x + xy * from_y + centre_x,
        "yx": yx,
        "yy": yy,
        "y0": yx * from_x + yy * from_y + centre_y,
    }
    for name, value in values.items():
        made[name] = np.rint(value * float(1 << POINT_BITS))
    return made


def look(sampling: Sampling, fill: Fill) -> tuple[int, int]:
    """Return the sampling and the colour beyond as a drawing of the core takes them."""
    return SAMPLINGS.index(sampling), packed(fill)


def warp(image: Image, out: Pixels, params: Row) -> None:
    """Fill `out` with what the map of `params` shows of `image`."""
    rows, columns, channels = image.shape
    x = np.arange(out.shape[1], dtype=np.int64)
    y = np.arange(out.shape[0], dtype=np.int64)[:, None]
    across = params["xx"] * x + params["xy"] * y + params["x0"]
    down = params["yx"] * x + params["yy"] * y + params["y0"]
    inside = (across >= 0) & (across < columns << POINT_BITS)
    inside &= (down >= 0) & (down < rows << POINT_BITS)
    across, down = across[inside], down[inside]
    out[...] = params["fill"][:channels]
    sampling = SAMPLINGS[params["sampling"]]
    if sampling == "nearest":
        out[inside] = image[down >> POINT_BITS, across >> POINT_BITS]
        return
    half = 1 << (POINT_BITS - 1) if sampling == "bilinear" else 0
    above, below, low = _local_peers(down - half, rows)
    left, right, near = _local_peers(across - half, columns)
    wide = image.astype(np.int64)
    upper: Ints = wide[above, left] * (_ONE - near) + wide[above, right] * near
    lower: Ints = wide[below, left] * (_ONE - near) + wide[below, right] * near
    total: Ints = upper * (_ONE - low) + lower * low
    out[inside] = (total + _ROUND) >> (2 * WEIGHT_BITS)


def _local_peers(point: Ints, side: int) -> tuple[Ints, Ints, Ints]:
    """Return the places around each point, (n,), and the second's weight, (n, 1)."""
    spare = POINT_BITS - WEIGHT_BITS
    place = point >> POINT_BITS
    rest = point & ((1 << POINT_BITS) - 1)
    weight = (rest + (1 << (spare - 1))) >> spare
    return np.clip(place, 0, side - 1), np.clip(place + 1, 0, side - 1), weight[:, None]


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
        """Return how a point becomes a pixel."""
        return "corner" if self.compat == "upstream" else self.interpolation

    @property
    def step(self) -> StepKind:
        """Return the core's step: sample along a map."""
        return StepKind.WARP

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
        low, high = _ends(self.degrees)
        is_upstream = self.compat == "upstream"
        shown = look(self.sampling, self.fill)
        return Drawing(DrawKind.ROTATE, (low, high - low, is_upstream, *shown))

    @property
    def words(self) -> int:
        """Return one word: the angle."""
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
        """Return the core's step: sample along a map."""
        return StepKind.WARP

    @property
    def drawing(self) -> Drawing:
        """Return the core's drawing of the same."""
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
    """Return the linear part of an output-to-image map: clockwise degrees, factors.

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
    """Return the ranges along x and along y."""
    if shear is None:
        return (0.0, 0.0), (0.0, 0.0)
    if not isinstance(shear, tuple):
        return (-shear, shear), (0.0, 0.0)
    return shear[:2], shear[2:] or (0.0, 0.0)


def _check_order(name: str, span: float | tuple[float, ...] | None) -> None:
    if isinstance(span, tuple) and span and span[0] > span[1]:
        raise ValueError(f"{name} goes from {span[0]} to {span[1]}. Put the smaller one first.")
