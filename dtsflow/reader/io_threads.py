"""The threads of a store that read from the disk."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

log = logging.getLogger(__name__)

LET_GO_S = 1.0  # a disk or network share that hangs must not keep the process


class Counting(Protocol):
    """What one thread reads with."""

    @property
    def retried(self) -> int:
        """How often a read was tried again so far."""


AnyReader = TypeVar("AnyReader", bound=Counting)


class IoThreads(Generic[AnyReader]):
    """Threads at work, each with a reader of its own.

    They refer to what `work` shares among them and never to their store, so that an
    abandoned run can be collected.

    Args:
        readers: One for each thread.
        work: What a thread does with its reader; returns once it was told to stop.
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
        """How often a read was tried again so far."""
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
