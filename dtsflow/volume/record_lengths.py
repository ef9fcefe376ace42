"""What a loader may know of the memory that its records take."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PlanError

Ints = npt.NDArray[np.int64]


@runtime_checkable
class Measured(Protocol):
    """Records that are known to be no longer than so much, before one is read."""

    @property
    def lengths(self) -> npt.NDArray[Any]:
        """The most bytes that each record has, whole numbers in the records' order."""


@runtime_checkable
class Holding(Protocol):
    """Records that tell what the loader itself keeps in memory."""

    @property
    def held_bytes(self) -> int:
        """Bytes of what was listed, and of records that it has read already."""


def lengths_of(records: object, count: int, loader: str) -> Ints | None:
    """The most bytes that each of `count` records has; None: their loader can't tell.

    Raises:
        PlanError: They are no whole numbers, or not one for each record.
    """
    if not isinstance(records, Measured):
        return None
    lengths = np.asarray(records.lengths)
    if lengths.shape != (count,) or lengths.dtype.kind not in "iu" or (lengths < 0).any():
        raise PlanError(
            f"{loader}: the lengths of its records are {lengths.dtype} of shape "
            f"{lengths.shape}, and must be {count:,} whole numbers of bytes, one for each record."
        )
    return lengths.astype(np.int64, copy=False)


def bytes_held_by(records: object) -> int:
    """What the loader keeps in memory, as far as it says."""
    return int(records.held_bytes) if isinstance(records, Holding) else 0
