"""Count the images; what a speed measurement wants."""

from typing import Any

import numpy as np

from dtsflow.arena.batch import Batch
from dtsflow.configurable import configurable
from dtsflow.consumer.consumer import Stage


@configurable
class Count:
    """Count valid rows and touch no pixel."""

    def open(self, stage: Stage) -> "Counting":  # noqa: ARG002  # counting needs to know nothing
        """Start at zero."""
        return Counting()


class Counting:
    """A running count."""

    def __init__(self) -> None:
        self._images = 0

    def take(self, batch: Batch) -> None:
        """Count the valid rows of `batch`."""
        self._images += int(np.count_nonzero(batch.valid))

    def results(self) -> dict[str, Any]:
        """The count, as `counted`."""
        return {"counted": self._images}
