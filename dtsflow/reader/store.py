"""What holds the stored samples of a run in memory while they are needed."""

import threading
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from dtsflow.reader.order import EpochOrder, Rows
from dtsflow.reader.samples import Samples


class Store(Protocol):
    """Samples by row; several workers ask at a time."""

    @property
    def threads(self) -> Sequence[threading.Thread]:
        """The IO threads."""

    def begin(self, epoch: EpochOrder, steps: range, timeout_s: float = 300.0) -> None:
        """Begin a pass over some steps of an epoch; the pass before must be over.

        Raises:
            StallError: A read for the pass before has not returned for `timeout_s`.
        """

    def gather(self, rows: Rows) -> Samples:
        """The stored samples of `rows`, all valid; waits until they are there.

        They stay until the rows are released. Rows of one call are consecutive.

        Raises:
            VolumeError: A block could not be read.
            ClosedError: The store was closed, or the pass ended, while this waited.
        """

    def release(self, rows: Rows) -> None:
        """Say that the rows of an earlier `gather` are written."""

    def end(self) -> None:
        """End the pass, and wake everyone who waits in it."""

    def progress(self) -> str:
        """How far reading has come, for the message of a stalled run."""

    @property
    def retries(self) -> int:
        """How often a read was tried again so far."""

    def close(self, *, wait: bool = True) -> None:
        """End the IO threads, wake every waiter, and wait until they are gone."""


@runtime_checkable
class Sparing(Protocol):
    """A store that can leave out what is not needed of a pass."""

    def begin_only(
        self, epoch: EpochOrder, steps: range, rows: Iterable[Rows], timeout_s: float = 300.0
    ) -> None:
        """Begin a pass as `begin` does, of which no other rows will be gathered."""
