"""Elementary functions with the same bits on every machine.

NumPy picks its kernels for exp and log by the CPU's features, and those of the C
library differ between versions: results may differ in the last bit, and one last bit
can move a crop by a pixel. IEEE 754 fixes the result of a single add or multiply, so
functions made of nothing else agree everywhere. Each array operation here rounds on its
own; a fused multiply-add would give another number.
"""

from decimal import Context, Decimal
from functools import lru_cache
from math import factorial
from typing import Final

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PlanError

EXP_LIMIT: Final = 8.0
_HALVINGS: Final = 4  # each one costs a bit of accuracy; 4 bring the limit down to 1/2
_TERMS: Final = [1 / factorial(k) for k in range(16)]  # 0.5^16 / 16! is below 2^-60
_CONTEXT: Final = Context(prec=40)


def exp(x: npt.ArrayLike) -> npt.NDArray[np.float64]:
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
