"""The double buffer of the station: who may use which of its two zones.

The settings of the station are here, too.

The whole state is counters that only grow: chunks claimed, chunks finished per zone,
batches filled (in step order) and batches drained. A zone is written while its batch is
less than two ahead of the last drained one, so nothing has to be set, cleared or
remembered.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from dtsflow.config.configurable import configurable
from dtsflow.errors import ClosedError, StallError
from dtsflow.memory.region import Region, padded_channels
from dtsflow.tensor.dtype import DType

log = logging.getLogger(__name__)

ZONES = 2
# Python may not see a Ctrl-C that comes just before a wait begins until it ends.
SLICE_S = 0.25
REMIND_S = 60.0  # a worker that waits for its consumer says so once a minute


class DoubleBuffer:
    """The hand-over of the batches of one pass over an epoch.

    Args:
        steps: The batches of this pass, in order.
        chunks: Chunks that workers fill in each batch.
    """

    def __init__(self, steps: range, chunks: int) -> None:
        self._steps = steps
        self._chunks = chunks
        self._claimed = 0
        self._finished = [0] * ZONES
        self._filled = 0
        self._drained = 0
        self._closed = False
        self._failure: tuple[int, BaseException] | None = None
        self._reminded = time.monotonic()
        self._changed = threading.Condition()

    def claim(self) -> tuple[int, int] | None:
        """Take the next chunk as (step, chunk); None when all are taken or it closed.

        Waits, without limit, while both zones are full: people do pause their loops.
        """
        with self._changed:
            while self._has_chunks():
                turn, chunk = divmod(self._claimed, self._chunks)
                if turn < self._drained + ZONES:
                    self._claimed += 1
                    return self._steps[turn], chunk
                if not self._changed.wait(REMIND_S):
                    self._remind()
            return None

    def _has_chunks(self) -> bool:
        ended = self._closed or self._failure is not None
        return not ended and self._claimed < len(self._steps) * self._chunks

    def _remind(self) -> None:
        """Log, for all waiting workers once a minute, whom they wait for."""
        now = time.monotonic()
        if now - self._reminded >= REMIND_S:
            self._reminded = now
            log.info("waiting for the consumer to give back batch %d", self._steps[self._drained])

    def finish(self, step: int) -> None:
        """Say that one claimed chunk of `step` is written."""
        with self._changed:
            self._finished[self._steps.index(step) % ZONES] += 1
            while self._filled < len(self._steps) and self._is_full(self._filled):
                self._filled += 1
                self._changed.notify_all()

    def _is_full(self, turn: int) -> bool:
        return self._finished[turn % ZONES] >= (turn // ZONES + 1) * self._chunks

    @property
    def steps(self) -> range:
        """Return the batches of this pass."""
        return self._steps

    @property
    def first_step(self) -> int:
        """Return the first batch of this pass."""
        return self._steps[0]

    def wait(self, timeout_s: float, progress: Callable[[], str] = lambda: "") -> int:
        """Return the step of the oldest batch not yet drained, once it is filled.

        `progress` says more about the workers' side, for the message of a stall.

        Raises:
            StallError: It was not filled within `timeout_s` seconds.
            ClosedError: The pass was closed.
            BaseException: What a worker failed with in this batch.
        """
        end = time.monotonic() + timeout_s
        with self._changed:
            while not self._is_ready():
                if (left := end - time.monotonic()) <= 0:
                    raise StallError(self._stalled(timeout_s, progress()))
                self._changed.wait(min(left, SLICE_S))
            return self._steps[self._drained]

    def _is_ready(self) -> bool:
        """Tell whether the oldest batch is full.

        Raises when that will never happen.
        """
        if self._closed:
            raise ClosedError("This pass over the epoch has ended: begin another.")
        if self._filled > self._drained:
            return True
        if self._failure is not None and self._failure[0] <= self._drained:
            raise self._failure[1]
        return False

    def _stalled(self, timeout_s: float, progress: str) -> str:
        behind = self._claimed - self._drained * self._chunks
        finished = sum(self._finished) - self._drained * self._chunks
        return (
            f"The workers stalled: batch {self._steps[self._drained]} was not full after "
            f"{timeout_s:g} s. They have claimed {behind} chunks and finished {finished}; a batch "
            f"has {self._chunks}. {progress}"
        ).rstrip()

    def drain(self) -> None:
        """Give the zone of the oldest filled batch back to the workers."""
        with self._changed:
            assert self._filled > self._drained
            self._drained += 1
            self._changed.notify_all()

    @property
    def is_closed(self) -> bool:
        """Tell whether the pass has ended."""
        return self._closed

    def close(self) -> None:
        """End the pass: nothing more is handed out, and every waiter wakes."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def fail(self, step: int, error: BaseException) -> None:
        """Claim no more, because a chunk of `step` failed.

        Batches before `step` are still handed out, for all their chunks were claimed
        before; then the consumer's wait raises the error of the earliest batch.
        """
        turn = self._steps.index(step)
        with self._changed:
            if self._failure is None or turn < self._failure[0]:
                self._failure = (turn, error)
            self._changed.notify_all()


@configurable
class Station:
    """The two zones between the workers and the consumer.

    Attributes:
        channel_align: 4 pads the channels of FP16 and BF16 pixels to a multiple of 4, 1
            packs them. The slot reserves the padded size either way.
        timeout_s: Seconds the consumer waits for a batch before the run ends with a
            `StallError`.
        poison: Fill a released zone with 0xFF, to find code that reads too late.
    """

    channel_align: Literal[1, 4] = 4
    timeout_s: Annotated[float, Field(gt=0, le=30 * 86_400)] = 300.0
    poison: bool = False

    def stored_channels(self, channels: int, dtype: DType) -> int:
        """Channels that a pixel occupies in the zone."""
        if self.channel_align == 1:
            return channels
        return padded_channels(channels, dtype, Region.I_A_DATA)
