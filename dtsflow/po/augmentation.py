"""The fourteen augmentations that RandAugment and TrivialAugment choose from.

They are torchvision's, in its order: Identity, ShearX, ShearY, TranslateX, TranslateY,
Rotate, Brightness, Color, Contrast, Sharpness, Posterize, Solarize, AutoContrast,
Equalize. Those that change values are Pillow's, bit for bit; those that move pixels
sample along an exact map (`warp`), about the top left corner for the shears.
"""

from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from dtsflow.native.steps import StepKind
from dtsflow.po.affine import Interpolation
from dtsflow.po.fill import Fill
from dtsflow.po.jitter import JITTER, NAMES
from dtsflow.po.operation import Params, Sizes
from dtsflow.po.substep import NONE, SUBSTEP, fill_in
from dtsflow.po.warp import maps
from dtsflow.seed.exact import sin_cos


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
    """Where the magnitude is drawn with a sign."""
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
