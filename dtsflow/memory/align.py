"""Alignment of offsets and of host memory."""

from typing import Final

import numpy as np
import numpy.typing as npt

from dtsflow.errors import MemoryPlanError

ALIGN: Final = 256  # bytes: what cudaMalloc guarantees, so aligned offsets are addresses
PAGE: Final = 4096  # bytes: what direct IO and pinning ask for


def align256(n: int) -> int:
    """Round `n` bytes up to the next multiple of 256."""
    return -(-n // ALIGN) * ALIGN


def aligned_bytes(nbytes: int, alignment: int = PAGE) -> npt.NDArray[np.uint8]:
    """Allocate `nbytes` zeros whose address is a multiple of `alignment`.

    The pages are untouched: the system hands them out, zeroed, at the first write.

    Raises:
        MemoryPlanError: `nbytes` is negative, or `alignment` is not a power of two.
    """
    if nbytes < 0 or alignment < 1 or alignment & (alignment - 1):
        raise MemoryPlanError(
            f"{nbytes} bytes aligned to {alignment} were asked for: the size must be at "
            "least 0 and the alignment a power of two."
        )
    # NumPy aligns to 16 or 64 bytes only, so take more and start at the right one.
    whole = np.zeros(nbytes + alignment, np.uint8)
    skip = -whole.ctypes.data % alignment
    return whole[skip : skip + nbytes]
