"""What the compiled core is told to do; the numbers are those of its C++ enums."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from dtsflow.tensor.dtype import DType

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
    """What became of a sample; status.hpp has the same."""

    OK = 0
    NOT_OURS = 1
    DAMAGED = 2
    NO_MEMORY = 3
    MISFIT = 4


CASTS = {DType.UINT8: 0, DType.FP16: 1, DType.BF16: 2, DType.FP32: 3}
"""Element types that the core writes; Cast of write.hpp has the same."""


@dataclass(frozen=True, slots=True, eq=False)
class Finish:
    """How a pixel becomes an element of the batch.

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
