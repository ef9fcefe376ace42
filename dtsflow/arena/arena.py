"""What an arena must offer: memory to fill, and filled batches at fixed addresses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dtsflow.arena.form import Form
from dtsflow.memory.plan import MemoryPlan
from dtsflow.station.turns import Turns
from dtsflow.station.zone import Zone


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A filled batch, readable until it is given back.

    Attributes:
        step: The global batch.
        zone: 0 or 1, the memory it lies in.
        images: Pixels (B, H, W, C), of NumPy or of the device's library.
        padded: The same pixels with padded channels.
        labels: int32 (B,).
        valid: bool (B,), on the host.
        sample_ids: int64 (B,), on the host.
        fields: Those beside images and labels, by name.
    """

    step: int
    zone: int
    images: Any
    padded: Any
    labels: Any
    valid: npt.NDArray[np.bool_]
    sample_ids: npt.NDArray[np.int64]
    fields: Mapping[str, Any] = field(default_factory=dict)


class Feed(Protocol):
    """The batches of one pass over an epoch, one after another."""

    def take(self) -> Delivery:
        """The next batch, once it is there.

        Raises:
            StallError: It was not filled in time.
            ClosedError: The pass was closed.
            BaseException: What a worker failed with in this batch.
        """

    def give_back(self) -> None:
        """Say that the next batch is asked for: the last one may be overwritten."""

    def end(self) -> None:
        """The pass is over, however it ended; may be called again."""


class Arena(Protocol):
    """The memory of a run's batches.

    A phase has a form for each resolution that its batches come in; a form's name is
    the phase's own where there is one alone.
    """

    @property
    def zones(self) -> Mapping[str, tuple[Zone, Zone]]:
        """By name of the form, the host memory that workers write to."""

    def feed(  # of one pass, joined in one place only
        self,
        form: str,
        turns: Turns,
        *,
        timeout_s: float,
        progress: Callable[[], str],
        poison: bool,
        stream: Any = None,
    ) -> Feed:
        """Hand over the batches that workers fill in `turns`; one feed at a time.

        It must be asked for before the workers begin: only then is nothing of the feed
        before it still reading the zones that they write.
        `stream` is what the consumer works on, where the arena is a device's.
        """

    @property
    def threads(self) -> Sequence[Thread]:
        """Those that move batches."""

    def close(self, *, wait: bool = True) -> None:
        """End what moves batches; the memory is free once nothing refers to it.

        Without `wait` it ends by itself, later: for a caller that may hold a lock which
        others want.
        """


@runtime_checkable
class ArenaConfig(Protocol):
    """A configured arena."""

    @property
    def finishes(self) -> bool:
        """Whether the last step, Normalize, is done where the batches live."""

    def host_bytes(self, plan: MemoryPlan, forms: Mapping[str, Form]) -> int:
        """What `open` allocates on the host."""

    def open(self, plan: MemoryPlan, forms: Mapping[str, Form], *, local_rank: int = 0) -> Arena:
        """Allocate what `plan` describes, for batches that have these forms.

        `local_rank` is this rank's number on its node.
        """
