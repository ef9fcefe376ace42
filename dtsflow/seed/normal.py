"""Normally distributed numbers made of random bits, the same on every machine.

A number is taken from a table: of 16 bits the highest is its sign, and the others say
which quantile of the upper half it is: number i is the value that a standard normal
variable stays below with probability 1/2 + (i + 1/2) / 65536, rounded to 1/4096. So
the distribution function is met within 1/131072, and no number is beyond 4.33.
"""

from functools import cache
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

UNIT: Final = 1 / 4096
"""What one step of a table entry means."""

ENTRIES: Final = 1 << 15


@cache
def quantiles() -> npt.NDArray[np.int16]:
    """The table, in units of 1/4096; shape (32768,).

    No entry lies nearer than 1e-5 of a unit to where it would round the other way, and
    a library's logarithm errs by less than a millionth of that.
    """
    inverse = NormalDist().inv_cdf
    values = [inverse(0.5 + (i + 0.5) / (2 * ENTRIES)) / UNIT for i in range(ENTRIES)]
    table = np.rint(values).astype(np.int16)
    table.flags.writeable = False  # it is shared
    return table


def normals(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """Make normal numbers of random 16-bit ones, each exactly a multiple of 1/4096."""
    sizes = quantiles()[bits & (ENTRIES - 1)].astype(np.float32) * np.float32(UNIT)
    found: npt.NDArray[np.float32] = np.where(bits & ENTRIES, -sizes, sizes)
    return found
