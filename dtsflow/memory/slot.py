"""The bytes that a tensor occupies in a plan.

A slot is sized so that an FP32 tensor takes exactly twice its unpadded FP16 twin. So a
weight has the same element number in a run of FP32 regions and in its FP16 copy, and
a single flat kernel casts the whole run, gaps included.
"""

from typing import Final

from dtsflow.memory.align import align256
from dtsflow.memory.region import HALF, Region
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape

_INPUTS: Final = frozenset({Region.I_A_DATA, Region.I_B_DATA})
_FEATURES: Final = frozenset({Region.F_FEATURE_FP16, Region.F_GRAD_SLOT_FP16})
_SPARE: Final = 16  # bytes; upstream reserves them, and offsets must equal its offsets


def channel_alignment(dtype: DType, region: Region) -> int:
    """The number that the channels of a tensor are padded to a multiple of."""
    if dtype in HALF and region in _INPUTS:
        return 4
    if dtype in HALF and region in _FEATURES:
        return 8
    if dtype is DType.INT8 and region is Region.S_MASK:
        return 8
    return 1


def padded_channels(channels: int, dtype: DType, region: Region) -> int:
    """Channels as stored, padding included."""
    alignment = channel_alignment(dtype, region)
    return -(-channels // alignment) * alignment


def slot_bytes(shape: Shape, dtype: DType, region: Region) -> int:
    """Bytes to reserve for a tensor: a multiple of 256, never less than it needs."""
    elements = shape.n * shape.h * shape.w * padded_channels(shape.c, dtype, region)
    if dtype.itemsize == 1:
        return align256(elements + _SPARE)
    # Wider types count in 2-byte units first, which is what keeps the ratio exact.
    return dtype.itemsize // 2 * align256(2 * elements + _SPARE)
