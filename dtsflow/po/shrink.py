"""Decoding a JPEG at a part of its size, where what follows scales it down anyway.

A JPEG can be decoded at one half, a quarter or an eighth for a fraction of the work.
With `decode.scaled`, a sample is decoded at 1/d, d the largest of 1, 2, 4, 8 for which
the window that the first operation scales is at least d times the size it is scaled to.
The scaled image has sides rounded up; the window there is the smallest that covers the
true one. The pixels differ from those of a full decode, slightly: it is a choice.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from dtsflow.native.steps import StepKind
from dtsflow.po.operation import Operation, Params, Sizes
from dtsflow.po.window import windows

SCALES: Final = (8, 4, 2)


def can_shrink(operations: tuple[Operation, ...]) -> bool:
    """Whether the first operation cuts a window and scales it."""
    first = getattr(operations[0], "step", None) if operations else None
    return first in (StepKind.SCALE, StepKind.SCALE_PLAIN)


def choose_scales(chosen: Params, out_sizes: Sizes) -> npt.NDArray[np.int64]:
    """Give d for each sample, from its window and the size it is scaled to."""
    scales = np.ones(len(chosen), np.int64)
    for scale in SCALES:
        fits = (chosen["h"] >= scale * out_sizes[:, 0]) & (chosen["w"] >= scale * out_sizes[:, 1])
        scales[fits & (scales == 1)] = scale
    return scales


def shrink(chosen: Params, scales: npt.NDArray[np.int64]) -> Params:
    """Move the windows to the images decoded at 1/d."""
    top, left = chosen["y"] // scales, chosen["x"] // scales
    bottom = -(-(chosen["y"] + chosen["h"]) // scales)
    right = -(-(chosen["x"] + chosen["w"]) // scales)
    return windows(top, left, bottom - top, right - left)
