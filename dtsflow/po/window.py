"""A window of an image: the parameters of every operation that cuts or scales."""

from typing import Final

import numpy as np
import numpy.typing as npt
from pydantic import PositiveInt

from dtsflow.po.operation import Params, Sizes

Size = PositiveInt | tuple[PositiveInt, PositiveInt]
"""An output size as configured: the side of a square, or (height, width)."""

WINDOW: Final = np.dtype([("y", "<i4"), ("x", "<i4"), ("h", "<i4"), ("w", "<i4")])
"""Rows y to y + h and columns x to x + w."""

Numbers = npt.NDArray[np.int64]


def sides(size: int | tuple[int, int]) -> tuple[int, int]:
    """The height and width that a configured size means."""
    return (size, size) if isinstance(size, int) else size


def windows(y: Numbers, x: Numbers, height: Numbers | int, width: Numbers | int) -> Params:
    """Gather windows from their columns, each of shape (n,) or one number for all."""
    made = np.empty(len(y), WINDOW)
    made["y"], made["x"], made["h"], made["w"] = y, x, height, width
    return made


def same_size(count: int, height: int, width: int) -> Sizes:
    """The sizes of `count` samples that all come out alike."""
    return np.full((count, 2), (height, width), np.int64)
