"""The colour that an operation gives pixels that no pixel of the image makes."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dtsflow.errors import PlanError

Level = Annotated[int, Field(ge=0, le=255)]
Fill = Level | Annotated[tuple[Level, ...], Field(min_length=1)]
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


def colour(fill: Fill, channels: int) -> npt.NDArray[np.uint8]:
    """One pixel of the colour, of a checked number of channels."""
    return np.broadcast_to(np.asarray(fill, np.uint8), (channels,))
