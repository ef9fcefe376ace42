"""Mixing two values of a pixel, as Pillow does."""

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int32]


def blend(other: Whole, pixels: Whole, factor: np.float32) -> Whole:
    """Give other + factor * (pixels - other), cut to a whole number and to 0..255.

    Each step rounds to float32.
    """
    mixed = other.astype(np.float32) + factor * (pixels - other).astype(np.float32)
    cut: Whole = np.clip(np.trunc(mixed), 0, 255).astype(np.int32)
    return cut
