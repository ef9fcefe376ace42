"""One tensor of a plan between host and device, with or without padded channels."""

from typing import Any

import numpy.typing as npt

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.align import aligned_bytes
from dtsflow.tensor.dtensor import DTensor
from dtsflow.tensor.layout import change_layout
from dtsflow.tensor.tensor import Tensor

Array = npt.NDArray[Any]


def as_stored(tensor: Tensor, dtensor: DTensor) -> Array:
    """The elements of a host tensor as its slot holds them; padding is zero.

    It is the tensor's own memory where nothing has to be changed.

    Raises:
        MemoryPlanError: Shape or type are not those of `dtensor`.
    """
    stored = room_for(tensor, dtensor)
    if stored is not tensor.array:
        change_layout(tensor.array, stored, dtensor.shape.c)
    return stored


def room_for(tensor: Tensor, dtensor: DTensor) -> Array:
    """Host memory laid out as a slot: the tensor's own where nothing is padded.

    Raises:
        MemoryPlanError: Shape or type are not those of `dtensor`.
    """
    if tensor.shape != dtensor.shape or tensor.dtype is not dtensor.dtype:
        raise MemoryPlanError(
            f"a host tensor {tensor.dtype.value}{tensor.shape} was given for {dtensor}. Nothing "
            f"is converted on the way: give {dtensor.dtype.value}{dtensor.shape}."
        )
    if dtensor.is_compact:
        return tensor.array
    n, h, w, _ = dtensor.shape
    nbytes = n * h * w * dtensor.padded_c * dtensor.dtype.itemsize
    return aligned_bytes(nbytes).view(dtensor.dtype.numpy).reshape(n, h, w, dtensor.padded_c)
