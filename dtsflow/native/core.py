"""The compiled core: finding it, and the numbers of its enums.

`load` gives the core, and `why_absent` says why it is not there. The numbers of steps,
of results and of the ways to draw are those of the C++ enums.
"""

import logging
import os
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from dtsflow.tensor.dtype import DType

log = logging.getLogger(__name__)

SWITCH = "DTSFLOW_NATIVE"  # 0: the reference path runs, as if the core had not been built


def load() -> ModuleType | None:
    """Return the compiled core, None where it is absent or switched off."""
    return _find()[0]


def why_absent() -> str:
    """Explain why `load` gives None, and what to do; empty where it gives the core."""
    return _find()[1]


@cache  # so every worker may call it, and the process says it once
def warn_absent() -> None:
    """Log, once a process, that the reference path runs, which is slower, and why."""
    log.warning("the reference path decodes and preprocesses, which is slower: %s", why_absent())


@cache
def _find() -> tuple[ModuleType | None, str]:
    if os.environ.get(SWITCH) == "0":
        return None, f"the native core is switched off by {SWITCH}=0"
    if find_spec("dtsflow.native._core") is None:
        return None, (
            "the native core was not built: install a C++20 compiler and libjpeg-turbo's headers "
            "(Debian: g++ libjpeg62-turbo-dev), then dtsflow again"
        )
    try:
        from dtsflow.native import _core  # noqa: PLC0415  # it may not have been built
    except ImportError as error:
        return None, f"the native core cannot be loaded ({error}): install dtsflow again"
    return _core, ""


OWN_FIRST = 7
"""Of the numbers of a step, the first that the operation itself packs."""

OWN_NUMBERS = 16

STEP_NUMBERS = OWN_FIRST + OWN_NUMBERS
"""int32 numbers of one step of a sample: window y, x, h, w; height and width out; in
the first step the one part in 1, 2, 4 or 8 that a JPEG is decoded at; and the bytes of
the operation's own parameters."""


class StepKind(IntEnum):
    """One step on an image; step.hpp has the same."""

    SCALE = 0
    SCALE_PLAIN = 1
    CROP = 2
    MIRROR = 3
    ERASE = 4
    FLIP_ROWS = 16
    PLACE = 17
    WARP = 18
    RESCALE = 19
    JITTER = 32
    GRAYSCALE = 33
    AUTOCONTRAST = 34
    BLUR = 35
    NOISE = 36
    POSTERIZE = 37
    SOLARIZE = 38
    EQUALIZE = 39
    SHARPEN = 40
    AUGMENT = 48


class Status(IntEnum):
    """The result of a sample; status.hpp has the same."""

    OK = 0
    NOT_OURS = 1
    DAMAGED = 2
    NO_MEMORY = 3
    MISFIT = 4


CASTS = {DType.UINT8: 0, DType.FP16: 1, DType.BF16: 2, DType.FP32: 3}
"""Element types that the core writes; Cast of write.hpp has the same."""


@dataclass(frozen=True, slots=True, eq=False)
class Finish:
    """The step from a pixel to an element of the batch.

    Attributes:
        dtype: Type of the elements.
        scale: a of y = x * a + b, float32, one a channel; empty for UINT8.
        offset: b.
        table: y for each value of x, of `dtype`, (channels, 256); empty for UINT8.
    """

    dtype: DType
    scale: npt.NDArray[np.float32]
    offset: npt.NDArray[np.float32]
    table: npt.NDArray[Any]


_NONE = np.empty(0, np.float32)
AS_STORED = Finish(DType.UINT8, _NONE, _NONE, np.empty(0, np.uint8))


class DrawKind(IntEnum):
    """The way one operation chooses its parameters; drawing.hpp has the same.

    Each takes some numbers. If the result has a size of its own, its height and width
    come first. A range is two numbers: where it begins and how far it reaches. A border
    is its number in `po.border` and a packed colour, a look the number of a sampling in
    `po.warp` and a packed colour.

    RESIZED_CROP: the range of the share of the area, that of the aspect ratio's
    logarithm, the least ratio and the greatest. LOG_RESIZED_CROP: the same, with
    logarithms of the shares. CROP: the padding above, on the left, in height and in
    width; not 0 where both sides are padded by what one of them lacks; the border.
    CENTRE_CROP: not 0 where the first of two middle places is taken. RESIZE_EXACT and
    RESIZE_SQUARE: no more. RESIZE_SHORT: the shorter side twice.

    PAD: the margin above, on the left, in height and in width; the border. ERASE: the
    probability, the range of the share, that of the ratio's logarithm. FLIP, CHANCE:
    only the probability. JITTER: four ranges, then which changes happen, as bits.
    ROTATE: the range of degrees, not 0 where small ones are none, the look. AFFINE: the
    range of degrees, the shares of the sides that it moves by, the ranges of the factor
    and of the shears, the look. RESCALE: the range of factors, whether antialiased.
    BLUR: the range of sigma, the radius. NOISE: mean and sigma. RAND_AUGMENT: the first
    of its words, position and number of magnitudes, the look. TRIVIAL_AUGMENT: the
    number of magnitudes, the look.
    """

    RESIZED_CROP = 0
    LOG_RESIZED_CROP = 1
    CROP = 2
    CENTRE_CROP = 3
    FLIP = 4
    RESIZE_SHORT = 5
    RESIZE_EXACT = 6
    RESIZE_SQUARE = 7
    PAD = 8
    ERASE = 9
    CHANCE = 10
    JITTER = 11
    ROTATE = 12
    AFFINE = 13
    RESCALE = 14
    BLUR = 15
    NOISE = 16
    RAND_AUGMENT = 17
    TRIVIAL_AUGMENT = 18


@dataclass(frozen=True, slots=True)
class Drawing:
    """The `draw` and `out_sizes` of one step as data, for the core to do the same."""

    kind: DrawKind
    numbers: tuple[float, ...]
