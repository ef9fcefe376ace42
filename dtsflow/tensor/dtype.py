"""The element types a tensor may have."""

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
        """Bytes per element."""
        return self.numpy.itemsize

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype that holds it; BF16 is carried as its 16 bits in uint16."""
        return _NUMPY[self]

    @classmethod
    def of(cls, dtype: npt.DTypeLike) -> "DType":
        """The element type whose NumPy dtype is `dtype`; uint16 means BF16.

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
