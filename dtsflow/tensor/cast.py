"""Numbers of one width of floating point as those of another."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dtsflow.errors import MemoryPlanError
from dtsflow.tensor.dtype import DType

FLOATS: Final = frozenset({DType.FP32, DType.FP16, DType.BF16})
_PIECE: Final = 1 << 18  # elements at a time, so that what lies between stays in the cache
_QUIET: Final = np.uint16(0x40)  # the bit that makes a BF16 of all-ones exponent a NaN


def cast_run(
    source: npt.NDArray[np.uint8],
    source_dtype: DType,
    target: npt.NDArray[np.uint8],
    target_dtype: DType,
) -> int:
    """Convert a run of slots, gaps included, between FP32, FP16 and BF16.

    `source` and `target` are the bytes of two runs of regions, as `MemoryPlan.range`
    tells them. As many elements as both hold are converted; returns how many. Slots are
    sized so that an element has the same number in both (`memory/slot.py`).

    Raises:
        MemoryPlanError: A type is no such float, an argument is no row of bytes, or the
            two share memory.
    """
    _check(source, source_dtype, target, target_dtype)
    count = min(source.size // source_dtype.itemsize, target.size // target_dtype.itemsize)
    given = source[: count * source_dtype.itemsize].view(source_dtype.numpy)
    taken = target[: count * target_dtype.itemsize].view(target_dtype.numpy)
    for start in range(0, count, _PIECE):
        piece = slice(start, start + _PIECE)
        taken[piece] = from_float32(to_float32(given[piece], source_dtype), target_dtype)
    return count


def to_float32(values: npt.NDArray[Any], dtype: DType) -> npt.NDArray[np.float32]:
    """The exact value of FP32, FP16, or BF16 (as uint16 bits); NaN stays NaN."""
    if dtype is DType.BF16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):  # a signalling NaN is no accident here
        return values.astype(np.float32, copy=False)


def from_float32(values: npt.NDArray[np.float32], dtype: DType) -> npt.NDArray[Any]:
    """Round to nearest, ties to even, as IEEE 754 does: overflow is infinity.

    NaN stays NaN; BF16 comes as uint16 bits.
    """
    if dtype is DType.BF16:
        return _bfloat16(values)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return values.astype(dtype.numpy, copy=False)


def _bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    bits = values.view(np.uint32)
    upper = (bits >> 16).astype(np.uint16)
    # Half of the last place, less one where the number is even already. A NaN may wrap
    # around here, and is set right below.
    rounded = ((bits + np.uint32(0x7FFF) + (upper & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), upper | _QUIET, rounded)


def _check(
    source: npt.NDArray[np.uint8],
    source_dtype: DType,
    target: npt.NDArray[np.uint8],
    target_dtype: DType,
) -> None:
    runs = f"a run of {source_dtype.value} was to be cast to {target_dtype.value}"
    if not {source_dtype, target_dtype} <= FLOATS:
        raise MemoryPlanError(f"{runs}, and only FP32, FP16 and BF16 are cast into each other.")
    for run in (source, target):
        if run.dtype != np.uint8 or run.ndim != 1 or not run.flags.c_contiguous:
            raise MemoryPlanError(
                f"{runs}, and one was given as {run.dtype.name}{list(run.shape)}. Give both as "
                "a compact row of bytes."
            )
    if np.may_share_memory(source, target):
        raise MemoryPlanError(f"{runs} in the same memory. Cast to memory of its own.")
