"""The element types that a tensor may have.

NumPy has no BF16, so BF16 numbers are kept as the 16 bits that they are stored in.
"""

from enum import Enum

import numpy as np
import numpy.typing as npt


class DType(Enum):
    """An element type; the value is the name used in configs, plans and reports."""

    FP64 = "FP64"
    FP32 = "FP32"
    FP16 = "FP16"
    BF16 = "BF16"
    INT64 = "INT64"
    INT32 = "INT32"
    INT8 = "INT8"
    UINT8 = "UINT8"

    @property
    def itemsize(self) -> int:
        """Return the bytes per element."""
        return self.numpy.itemsize

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """Return the NumPy dtype that holds it; BF16 is carried as bits in uint16."""
        return _NUMPY[self]

    @classmethod
    def of(cls, dtype: npt.DTypeLike) -> "DType":
        """Return the element type whose NumPy dtype is `dtype`; uint16 means BF16.

        Raises:
            KeyError: No element type is stored that way.
        """
        return _FROM_NUMPY[np.dtype(dtype)]


_NUMPY: dict[DType, np.dtype[np.generic]] = {
    DType.FP64: np.dtype("<f8"),
    DType.FP32: np.dtype("<f4"),
    DType.FP16: np.dtype("<f2"),
    DType.BF16: np.dtype("<u2"),
    DType.INT64: np.dtype("<i8"),
    DType.INT32: np.dtype("<i4"),
    DType.INT8: np.dtype("i1"),
    DType.UINT8: np.dtype("u1"),
}
_FROM_NUMPY = {dtype: name for name, dtype in _NUMPY.items()}


def to_bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Round to nearest even, to the upper 16 bits of a float32."""
    bits = values.view(np.uint32)
    half = np.uint32(0x7FFF) + ((bits >> 16) & 1)
    return ((bits + half) >> 16).astype(np.uint16)


def from_bfloat16(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """Give the numbers that the bits mean."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
