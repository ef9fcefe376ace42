"""The fourteen augmentations that RandAugment and TrivialAugment choose from.

They are torchvision's, in its order: Identity, ShearX, ShearY, TranslateX, TranslateY,
Rotate, Brightness, Color, Contrast, Sharpness, Posterize, Solarize, AutoContrast,
Equalize. Those that change values are Pillow's, bit for bit; those that move pixels
sample along an exact map (`warp`), about the top left corner for the shears.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from dtsflow.native.steps import StepKind
from dtsflow.po.affine import Interpolation
from dtsflow.po.chance import CHANCE
from dtsflow.po.fill import Fill
from dtsflow.po.jitter import JITTER, NAMES
from dtsflow.po.operation import Params, Sizes
from dtsflow.po.substep import BITS, FACTOR, THRESHOLD, assign, nothing
from dtsflow.po.warp import maps
from dtsflow.seed.exact import sin_cos

AUGMENTATIONS: Final = (
    "identity",
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
    "rotate",
    "brightness",
    "color",
    "contrast",
    "sharpness",
    "posterize",
    "solarize",
    "autocontrast",
    "equalize",
)

Which = npt.NDArray[np.int64]
"""For each sample the place of its augmentation in AUGMENTATIONS."""

Floats = npt.NDArray[np.float64]
_SIGNED: Final = 10  # so many come before those whose magnitude has no sign


def is_signed(which: Which) -> npt.NDArray[np.bool_]:
    """Where the magnitude is drawn with a sign."""
    return (which > 0) & (which < _SIGNED)


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
    made = nothing(len(which))
    places = {name: which == place for place, name in enumerate(AUGMENTATIONS)}
    moved = (which >= AUGMENTATIONS.index("shear_x")) & (which <= AUGMENTATIONS.index("rotate"))
    if moved.any():
        own = _maps(places, magnitude, sizes, interpolation, fill)
        assign(made, moved, StepKind.WARP, own)
    factor = np.zeros(len(which), FACTOR)
    factor["factor"] = 1.0 + magnitude
    assign(made, places["sharpness"], StepKind.SHARPEN, factor)
    for name, change in (("brightness", 0), ("contrast", 1), ("color", 2)):
        own = np.zeros(len(which), JITTER)
        own["order"] = (change, -1, -1, -1)
        own[NAMES[change]] = factor["factor"]
        assign(made, places[name], StepKind.JITTER, own)
    bits, threshold = np.zeros(len(which), BITS), np.zeros(len(which), THRESHOLD)
    bits["bits"], threshold["threshold"] = np.trunc(magnitude), magnitude
    assign(made, places["posterize"], StepKind.POSTERIZE, bits)
    assign(made, places["solarize"], StepKind.SOLARIZE, threshold)
    always = np.ones(len(which), CHANCE)
    assign(made, places["autocontrast"], StepKind.AUTOCONTRAST, always)
    assign(made, places["equalize"], StepKind.EQUALIZE, always)
    return made


def _maps(
    places: dict[str, npt.NDArray[np.bool_]],
    magnitude: Floats,
    sizes: Sizes,
    interpolation: Interpolation,
    fill: Fill,
) -> Params:
    height, width = sizes.T
    turned = places["rotate"]
    sine, cosine = sin_cos(np.where(turned, magnitude, 0.0))
    slope_x = np.where(places["shear_x"], magnitude, 0.0)
    slope_y = np.where(places["shear_y"], magnitude, 0.0)
    linear = (cosine, slope_x - sine, slope_y + sine, cosine)
    # `maps` shears about the centre; so far the corner would move then.
    shift_x = np.where(places["translate_x"], np.trunc(magnitude), -0.5 * slope_x * height)
    shift_y = np.where(places["translate_y"], np.trunc(magnitude), -0.5 * slope_y * width)
    return maps(linear, sizes, shift=(shift_x, shift_y), sampling=interpolation, fill=fill)
