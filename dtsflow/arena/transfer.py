"""One tensor of a plan between host and device, with or without padded channels."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dtsflow.errors import MemoryPlanError
from dtsflow.tensor.dtensor import DTensor

Array = npt.NDArray[Any]


def padded(tensor: Array, dtensor: DTensor) -> Array:
    """The elements of a compact host tensor as its slot holds them; padding is zero.

    It is `tensor` itself where nothing has to be changed.

    Raises:
        MemoryPlanError: Shape or dtype are not those of `dtensor`.
    """
    check(tensor, dtensor)
    if dtensor.is_compact:
        return np.ascontiguousarray(tensor)
    n, h, w, c = dtensor.shape
    wide = np.zeros((n, h, w, dtensor.padded_c), dtensor.dtype.numpy)
    wide[..., :c] = tensor
    return wide


def room_for(tensor: Array, dtensor: DTensor) -> Array:
    """Host memory that takes a slot as it is: `tensor` itself where nothing is padded.

    Raises:
        MemoryPlanError: Shape or dtype are not those of `dtensor`.
    """
    check(tensor, dtensor)
    if dtensor.is_compact and tensor.flags.c_contiguous:
        return tensor
    n, h, w, _ = dtensor.shape
    return np.empty((n, h, w, dtensor.padded_c), dtensor.dtype.numpy)


def check(tensor: Array, dtensor: DTensor) -> None:
    """See that a host tensor is what `dtensor` describes.

    Raises:
        MemoryPlanError: It is not; the message has both.
    """
    if tensor.shape != tuple(dtensor.shape) or tensor.dtype != dtensor.dtype.numpy:
        raise MemoryPlanError(
            f"a host tensor of {tensor.dtype} {tensor.shape} was given for {dtensor}. Nothing is "
            f"converted on the way: give {dtensor.dtype.numpy} {tuple(dtensor.shape)}."
        )
