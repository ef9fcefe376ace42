"""Whether an operation happens to a sample: the parameter of all that may not."""

from typing import Annotated, Final

import numpy as np
from pydantic import Field

from dtsflow.po.operation import Draws, Params

Probability = Annotated[float, Field(ge=0, le=1)]

CHANCE: Final = np.dtype([("happens", "<i4")])


def chances(draws: Draws, word: int, p: float) -> Params:
    """Let it happen where draw `word` is below `p`."""
    chosen = np.empty(len(draws), CHANCE)
    chosen["happens"] = draws.uniform(word) < p
    return chosen
