"""The contract of a store, which holds a run's samples in memory while needed.

Stored samples in memory are one struct of arrays per chunk. A store has threads that
read from the disk.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from dtsflow.reader.order import EpochOrder, Rows

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Samples:
    """The stored bytes of some samples, as slices of one memory that the reader owns.

    Attributes:
        memory: All bytes that the reader holds.
        offsets: Where each sample begins in `memory`.
        sizes: Bytes of each sample.
        labels: Label of each sample, int32.
        ids: sample_id of each sample.
        refused: Numbers, in this chunk, of samples whose whole block is damaged, each
            with the reason. Offset, size and label of such a one mean nothing.
        stands_for: What addresses the draws of these samples, where they replace others
            or come again in a mix; None: the sample_id of each.
        numbers: The number of each sample among the rank's own, -1 if its rows are not
            to be kept; None: those of none are.
    """

    memory: Bytes
    offsets: Ints
    sizes: Ints
    labels: npt.NDArray[np.int32]
    ids: Ints
    refused: Mapping[int, str] = field(default_factory=dict)
    stands_for: Ints | None = None
    numbers: Ints | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def draw_ids(self) -> Ints:
        """Return what the draws of each sample are addressed by."""
        return self.ids if self.stands_for is None else self.stands_for

    def data(self, number: int) -> memoryview:
        """Return the stored bytes of sample `number` of this chunk, not copied."""
        start = int(self.offsets[number])
        return self.memory[start : start + int(self.sizes[number])].data

    def only(self, numbers: Ints) -> "Samples":
        """Return the samples with these numbers alone, numbered anew."""
        refused = {
            place: self.refused[number]
            for place, number in enumerate(numbers.tolist() if self.refused else ())
            if number in self.refused
        }
        stands_for = None if self.stands_for is None else self.stands_for[numbers]
        return Samples(
            self.memory,
            self.offsets[numbers],
            self.sizes[numbers],
            self.labels[numbers],
            self.ids[numbers],
            refused,
            stands_for,
            None if self.numbers is None else self.numbers[numbers],
        )


class Store(Protocol):
    """Samples by row; several workers ask at a time."""

    @property
    def threads(self) -> Sequence[threading.Thread]:
        """Return the IO threads."""

    def begin(self, epoch: EpochOrder, steps: range, timeout_s: float = 300.0) -> None:
        """Begin a pass over some steps of an epoch; the pass before must be over.

        Raises:
            StallError: A read for the pass before has not returned for `timeout_s`.
        """

    def gather(self, rows: Rows) -> Samples:
        """Return the stored samples of `rows`, all valid.

        It waits until they are there.

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
        """Return how far reading has come, for the message of a stalled run."""

    @property
    def retries(self) -> int:
        """Return how often a read was tried again so far."""

    def close(self, *, wait: bool = True) -> None:
        """End the IO threads, wake every waiter, and wait until they are gone."""


@runtime_checkable
class Sparing(Protocol):
    """A store that can leave out what is not needed of a pass."""

    def begin_only(
        self, epoch: EpochOrder, steps: range, rows: Iterable[Rows], timeout_s: float = 300.0
    ) -> None:
        """Begin a pass as `begin` does, of which no other rows will be gathered."""


log = logging.getLogger(__name__)

LET_GO_S = 1.0  # a disk or network share that hangs must not keep the process


class Counting(Protocol):
    """The reader of one thread."""

    @property
    def retried(self) -> int:
        """Return how often a read was tried again so far."""


AnyReader = TypeVar("AnyReader", bound=Counting)


class IoThreads(Generic[AnyReader]):
    """Threads at work, each with a reader of its own.

    They refer to what `work` shares among them and never to their store, so that an
    abandoned run can be collected.

    Args:
        readers: One for each thread.
        work: What a thread does with its reader; returns once it was asked to stop.
        stop: Tells all of them.
    """

    def __init__(
        self,
        readers: Sequence[AnyReader],
        work: Callable[[AnyReader], None],
        stop: Callable[[], None],
    ) -> None:
        self._readers = readers
        self._stop = stop
        self.threads: list[threading.Thread] = []
        try:
            for number, reader in enumerate(readers):
                thread = threading.Thread(
                    target=work,
                    args=(reader,),
                    name=f"dtsflow-io-{number}",
                    daemon=True,  # interpreter exit must not wait for the disk
                )
                thread.start()
                self.threads.append(thread)
        except BaseException:
            self.close()
            raise

    @property
    def retries(self) -> int:
        """Return how often a read was tried again so far."""
        return sum(reader.retried for reader in self._readers)

    def close(self, *, wait: bool = True) -> None:
        """End the threads, and wait until they are gone; not for ever."""
        self._stop()
        if not wait:
            return
        end = time.monotonic() + LET_GO_S
        for thread in self.threads:
            thread.join(max(0.0, end - time.monotonic()))
        if stuck := sum(thread.is_alive() for thread in self.threads):
            log.warning("%d IO threads are still waiting for the disk; left behind", stuck)
