"""BF16 numbers, which NumPy does not have, as the 16 bits that they are stored in."""

import numpy as np
import numpy.typing as npt


def to_bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Round to nearest even, to the upper 16 bits of a float32."""
    bits = values.view(np.uint32)
    half = np.uint32(0x7FFF) + ((bits >> 16) & 1)
    return ((bits + half) >> 16).astype(np.uint16)


def from_bfloat16(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """Give the numbers that the bits mean."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
