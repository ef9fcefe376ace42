"""Elementary functions and normal numbers with the same bits on every machine.

NumPy picks its kernels for exp and log by the CPU's features, and those of the C
library differ between versions. Results may differ in the last bit, and one last bit
can move a crop by a pixel. IEEE 754 fixes the result of a single add or multiply, so
functions made of nothing else agree everywhere. Each array operation here rounds on its
own; a fused multiply-add would give another number.

Normally distributed numbers are taken from a table. The highest of 16 random bits is
the sign, and the others give the quantile of the upper half: number i is the value that
a standard normal variable stays below with probability 1/2 + (i + 1/2) / 65536, rounded
to 1/4096. So the distribution function is met within 1/131072, and no number is beyond
4.33.
"""

from collections.abc import Sequence
from decimal import Context, Decimal
from functools import cache, lru_cache
from math import factorial
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PlanError

EXP_LIMIT: Final = 8.0
_HALVINGS: Final = 4  # each one costs a bit of accuracy; 4 bring the limit down to 1/2
_TERMS: Final = [1 / factorial(k) for k in range(16)]  # 0.5^16 / 16! is below 2^-60
_CONTEXT: Final = Context(prec=40)

Floats = npt.NDArray[np.float64]
DEGREES_LIMIT: Final = 1e6
_RADIAN: Final = 0.017453292519943295  # pi / 180
# Of sin(x) / x and of cos(x), without their ones, by powers of x^2: at pi / 4 the first
# term that is left out is below 1e-17 of the result.
_SINE_TERMS: Final = [(-1) ** k / factorial(2 * k + 1) for k in range(1, 9)]
_LN2: Final = 0.6931471805599453
_ARTANH_TERMS: Final = [1 / (2 * k + 1) for k in range(1, 12)]  # 0.172^24 / 25 is below 2^-64
_COSINE_TERMS: Final = [(-1) ** k / factorial(2 * k) for k in range(1, 10)]


def exp(x: npt.ArrayLike) -> Floats:
    """Raise e to each element, |x| <= 8, with a relative error below 1e-14.

    Raises:
        PlanError: An element is beyond the limit or not a number.
    """
    power = np.asarray(x, np.float64)
    if not np.all(np.abs(power) <= EXP_LIMIT):
        raise PlanError(
            f"the exact exponential covers -{EXP_LIMIT}..{EXP_LIMIT} and was given "
            f"{power.min()}..{power.max()}. Narrow the range that the operation draws from."
        )
    reduced = power * 0.5**_HALVINGS
    result = np.full_like(reduced, _TERMS[-1])
    for term in reversed(_TERMS[:-1]):
        result *= reduced
        result += term
    for _ in range(_HALVINGS):
        result *= result
    return result


@lru_cache(maxsize=64)  # the same few constants are asked for with every chunk
def log(value: float) -> float:
    """Take the natural logarithm, correctly rounded; slow, for constants of a plan.

    Raises:
        PlanError: `value` is not a positive, finite number.
    """
    if not 0 < value < float("inf"):
        raise PlanError(
            f"the logarithm of {value} was asked for, and only positive, finite numbers "
            "have one. Correct the range it came from."
        )
    return float(_CONTEXT.ln(Decimal(value)))


def logs(x: npt.ArrayLike) -> Floats:
    """Take natural logarithms of positive numbers, each right to 1e-15 of its value.

    Raises:
        PlanError: An element is not a positive, finite number.
    """
    value = np.asarray(x, np.float64)
    if not np.all((value > 0) & (value < np.inf)):
        raise PlanError(
            f"logarithms of {value.min()}..{value.max()} were asked for, and only positive, "
            "finite numbers have one. Correct the range that the operation draws from."
        )
    part, twos = np.frexp(value)
    is_small = part < 0.5**0.5
    part, twos = np.where(is_small, part * 2.0, part), twos - is_small
    # ln(part) = 2 artanh(s), and part lies between the roots of 1/2 and of 2.
    s = (part - 1.0) / (part + 1.0)
    square = s * s
    twice = 2.0 * s
    rest = twice + twice * (square * _series(_ARTANH_TERMS, square))
    return np.asarray(twos * _LN2 + rest, np.float64)


def sin_cos(degrees: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Take the sine and the cosine of angles in degrees, each at most a million.

    Both are right to 4e-16 of their value, and exact at the multiples of 90 degrees.

    Raises:
        PlanError: An angle is beyond the limit or not a number.
    """
    angle = np.asarray(degrees, np.float64)
    if not np.all(np.abs(angle) <= DEGREES_LIMIT):
        raise PlanError(
            f"exact sines cover -{DEGREES_LIMIT}..{DEGREES_LIMIT} degrees and were asked for "
            f"{angle.min()}..{angle.max()}. Narrow the range that the operation draws from."
        )
    turns = np.rint(angle / 90.0)
    # Exact: both are multiples of the angle's last bit, and the rest is 45 at the most.
    rest = (angle - turns * 90.0) * _RADIAN
    square = rest * rest
    sine = rest + rest * (square * _series(_SINE_TERMS, square))
    cosine = 1.0 + square * _series(_COSINE_TERMS, square)
    quarter = turns.astype(np.int64) & 3
    is_odd = (quarter & 1) == 1
    sine, cosine = np.where(is_odd, cosine, sine), np.where(is_odd, sine, cosine)
    sine = np.where(quarter > 1, -sine, sine)
    cosine = np.where((quarter == 1) | (quarter == 2), -cosine, cosine)  # noqa: PLR2004  # the left half
    return sine + 0.0, cosine + 0.0  # -0.0 becomes 0.0


def _series(terms: Sequence[float], x: Floats) -> Floats:
    total = np.full_like(x, terms[-1])
    for term in reversed(terms[:-1]):
        total = total * x + term
    return total


UNIT: Final = 1 / 4096
"""What one step of a table entry means."""

ENTRIES: Final = 1 << 15


@cache
def quantiles() -> npt.NDArray[np.int16]:
    """Return the table, in units of 1/4096; shape (32768,).

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
