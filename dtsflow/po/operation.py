"""What a preprocess operation is: sizes and random draws in bulk, pixels one by one.

An operation first maps a spec to a spec, at plan time. For each chunk of samples it
then draws its parameters, vectorised; parameters are data, one row a sample, so the
same rows drive the NumPy reference here, the native core and a device kernel.
"""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dtsflow.decode.decoder import Image
from dtsflow.seed.draws import Draws
from dtsflow.spec import ImageSpec

__all__ = ["NOTHING", "Draws", "Image", "Operation", "Params", "Pixels", "Row", "Sizes"]

Sizes = npt.NDArray[np.int64]
"""One (height, width) a sample: shape (n, 2)."""

Params = npt.NDArray[np.void]
"""A structured array, one row a sample: shape (n,)."""

Row = np.void
"""One sample's parameters."""

Pixels = npt.NDArray[Any]
"""Height x width x channels to be written, of the output's dtype, perhaps strided."""

NOTHING = np.dtype([])
"""The parameters of an operation that needs none."""


@runtime_checkable
class Operation(Protocol):
    """One step on an image. Stateless: any worker may run it on any sample."""

    @property
    def words(self) -> int:
        """How many random 32-bit words `draw` may read for each sample."""

    def out_spec(self, spec: ImageSpec) -> ImageSpec:
        """Say what comes out where `spec` goes in.

        Raises:
            PlanError: The operation cannot work on such images.
        """

    def draw(self, draws: Draws, sizes: Sizes) -> Params:
        """Choose the parameters of a chunk of samples of the given sizes.

        A row depends on its own sample's draws and size alone, never on its neighbours.
        """

    def out_sizes(self, sizes: Sizes, params: Params) -> Sizes:
        """Give the sizes that `apply` makes of `sizes`."""

    def apply(self, image: Image, out: Pixels, params: Row) -> None:
        """Fill all of `out` from `image`; keep no view of either.

        `out` has the shape that `out_sizes` gave, and never shares bytes with `image`.
        """
