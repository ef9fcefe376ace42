"""The colour that an operation gives pixels that no pixel of the image makes."""

from typing import Annotated, Final

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dtsflow.errors import PlanError

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
    """A pixel of the colour, as rows of parameters hold it, with zeros behind."""
    values = (fill,) * MOST_CHANNELS if isinstance(fill, int) else fill
    if len(values) == 1:
        values *= MOST_CHANNELS
    return np.array([*values, 0, 0, 0][:MOST_CHANNELS], np.uint8)


def packed(fill: Fill) -> int:
    """The colour as one number, as a drawing of the core takes it."""
    return int.from_bytes(colour(fill).tobytes(), "little")
