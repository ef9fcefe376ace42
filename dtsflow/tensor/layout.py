"""From compact to padded channels and back."""

from typing import Any

import numpy.typing as npt

from dtsflow.errors import MemoryPlanError
from dtsflow.tensor.shape import RANK


def change_layout(source: npt.NDArray[Any], target: npt.NDArray[Any], channels: int) -> None:
    """Copy `channels` channels of each pixel; what else `target` has becomes zero.

    Both are (n, h, w, stored channels) of one type, any strides. So a target with more
    channels is padded, one with `channels` is made compact, and the padding of a source
    is never read. Types do not matter: elements are moved, not converted.

    Raises:
        MemoryPlanError: The two differ in more than stored channels, or one has fewer
            than `channels`.
    """
    stored = [array.shape[-1] if array.ndim == RANK else 0 for array in (source, target)]
    if (
        source.dtype != target.dtype
        or source.shape[:-1] != target.shape[:-1]
        or not 1 <= channels <= min(stored)
    ):
        raise MemoryPlanError(
            f"the layout of {channels} channels was to be changed from {source.dtype.name}"
            f"{list(source.shape)} to {target.dtype.name}{list(target.shape)}: both must have "
            f"the same type and n, h and w, and at least {channels} channels."
        )
    target[..., :channels] = source[..., :channels]
    target[..., channels:] = 0
