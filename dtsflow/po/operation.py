"""The contract of an operation: sizes and random draws in bulk, pixels one by one.

The parts that several operations share are here, too: the colour of pixels that the
image does not give, the check of colour images, the draw whether an operation happens
to a sample, and mixing two values of a pixel as Pillow does.

An operation first maps a spec to a spec, at plan time. For each chunk of samples it
then draws its parameters, vectorised; parameters are data, one row a sample, so the
same rows drive the NumPy reference here, the native core and a device kernel.
"""

from typing import Annotated, Any, Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dtsflow.decode.decoder import Image
from dtsflow.errors import PlanError
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
        """Return how many random 32-bit words `draw` may read for each sample."""

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


MOST_CHANNELS: Final = 4

Level = Annotated[int, Field(ge=0, le=255)]
Fill = Level | Annotated[tuple[Level, ...], Field(min_length=1, max_length=MOST_CHANNELS)]
"""As configured: one value for all channels, or one for each."""


def check_fill(fill: Fill, channels: int) -> None:
    """Refuse a colour of another number of channels than the images have.

    Raises:
        PlanError: They differ.
    """
    if not isinstance(fill, int) and len(fill) not in (1, channels):
        raise PlanError(
            f"fill {list(fill)} is for {len(fill)} channel(s) and the images have {channels}. "
            f"Give one value, or {channels}."
        )


def colour(fill: Fill) -> npt.NDArray[np.uint8]:
    """Return a pixel of the colour as parameter rows hold it, with zeros behind."""
    values = (fill,) * MOST_CHANNELS if isinstance(fill, int) else fill
    if len(values) == 1:
        values *= MOST_CHANNELS
    return np.array([*values, 0, 0, 0][:MOST_CHANNELS], np.uint8)


def packed(fill: Fill) -> int:
    """Return the colour as one number, as a drawing of the core takes it."""
    return int.from_bytes(colour(fill).tobytes(), "little")


GRAY, RGB = 1, 3


def require_rgb(spec: ImageSpec, why: str) -> None:
    """Refuse images without colours.

    Raises:
        PlanError: There aren't three channels.
    """
    if spec.channels != RGB:
        raise PlanError(
            f"{why} takes colours, and the images have {spec.channels} channel(s), not 3. "
            "Leave it out for these images."
        )


def require_gray_or_rgb(spec: ImageSpec) -> None:
    """Refuse images of another kind.

    Raises:
        PlanError: There are neither one nor three channels.
    """
    if spec.channels not in (GRAY, RGB):
        raise PlanError(
            f"the images have {spec.channels} channels. It takes 1 (gray) or 3 (RGB): leave "
            "it out for these images."
        )


Probability = Annotated[float, Field(ge=0, le=1)]

CHANCE: Final = np.dtype([("happens", "<i4")])


def chances(draws: Draws, word: int, p: float) -> Params:
    """Let it happen where draw `word` is below `p`."""
    chosen = np.empty(len(draws), CHANCE)
    chosen["happens"] = draws.uniform(word) < p
    return chosen


Whole = npt.NDArray[np.int32]


def blend(other: Whole, pixels: Whole, factor: np.float32) -> Whole:
    """Give other + factor * (pixels - other), cut to a whole number and to 0..255.

    Each step rounds to float32.
    """
    mixed = other.astype(np.float32) + factor * (pixels - other).astype(np.float32)
    cut: Whole = np.clip(np.trunc(mixed), 0, 255).astype(np.int32)
    return cut
