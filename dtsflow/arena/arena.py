"""What an arena is to a run: zones to write, and the batches made of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dtsflow.station.turns import Turns
from dtsflow.station.zone import Zone


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A filled batch: arrays at fixed addresses, readable until it is given back.

    Attributes:
        step: Number of the global batch within the epoch.
        zone: 0 or 1, which of the fixed addresses these are.
        images: Pixels (B, H, W, C), of NumPy or cupy, as the next two.
        padded: The same pixels with padded channels.
        labels: int32 (B,).
        valid: bool (B,), always of the host.
        sample_ids: int64 (B,), always of the host.
    """

    step: int
    zone: int
    images: Any
    padded: Any
    labels: Any
    valid: npt.NDArray[np.bool_]
    sample_ids: npt.NDArray[np.int64]


class Feed(Protocol):
    """The batches of one pass over an epoch, in order, for one consumer."""

    def take(self) -> Delivery:
        """The next batch, once it is there.

        Raises:
            StallError: One side made no progress within its limit.
            ClosedError: The pass was closed.
            BaseException: What a worker failed with in this batch.
        """

    def give_back(self) -> None:
        """Say that the last delivery may be overwritten."""

    def end(self) -> None:
        """End the pass, however it went; again does nothing. Never blocks for long."""


class Arena(Protocol):
    """The memory of a run.

    Attributes:
        zones: By phase, the two pieces of host memory that the workers write.
    """

    @property
    def zones(self) -> Mapping[str, tuple[Zone, Zone]]:
        """By phase, the two pieces of host memory that the workers write."""

    def feed(
        self,
        phase: str,
        turns: Turns,
        *,
        timeout_s: float,
        progress: Callable[[], str],
        poison: bool,
        stream: Any = None,
    ) -> Feed:
        """Begin to hand out the batches of a pass; an earlier one ends.

        It must come before the workers of the pass begin: only then is no copy of the
        pass before still reading the zones that they write.
        """

    def close(self) -> None:
        """End every pass, and let go of the memory once nothing refers to it."""
