"""One pass over an epoch whose batches live on a device."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from dtsflow.arena.arena import Delivery
from dtsflow.arena.cuda import Stream
from dtsflow.arena.slot_events import SlotEvents
from dtsflow.arena.upload import Upload
from dtsflow.errors import ClosedError, StallError, StationError
from dtsflow.station.turns import ZONES, Turns

# Python may not see a Ctrl-C that comes just before a wait begins until it ends.
_SLICE_S: Final = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """What a pass was asked for with.

    Attributes:
        timeout_s: Seconds that a consumer waits for a side that does nothing.
        progress: More about the workers' side, for the message of a stall.
        poison: Whether a batch that was given back is filled with 0xFF.
        consumer_stream: Finds, on the consumer's thread, the stream that it works on.
    """

    timeout_s: float
    progress: Callable[[], str]
    poison: bool
    consumer_stream: Callable[[], Stream]


class DeviceFeed:
    """Uploads each batch, as soon as it is full and its slot was given back.

    A thread does, so batch g + 1 is on its way while the consumer works with g. The
    state is three counters that only grow: batches on their way or there, taken, and
    given back.
    """

    def __init__(self, turns: Turns, upload: Upload, events: SlotEvents, terms: Terms) -> None:
        self._turns = turns
        self._upload = upload
        self._events = events
        self._terms = terms
        self._state = _State()
        self._reader: Any = None
        self.thread = threading.Thread(target=self._run, name="dtsflow-upload", daemon=True)
        self.thread.start()

    def take(self) -> Delivery:
        """The next batch; work that its stream is given from now on finds it there.

        Raises:
            StallError: The workers, or the device, made no progress within the limit.
            ClosedError: The pass was closed.
            StationError: The device failed.
            BaseException: What a worker failed with in this batch.
        """
        state = self._state
        if self._reader is None:
            self._reader = self._terms.consumer_stream()
        with state.changed:
            state.is_awaited = True
            self._await_uploaded()
            state.is_awaited = False
        step = self._step(state.taken)
        self._events.hand_out(step % ZONES, self._reader)
        state.taken += 1
        return self._upload.delivery(step % ZONES, step)

    def _await_uploaded(self) -> None:
        state, timeout_s = self._state, self._terms.timeout_s
        end = time.monotonic() + timeout_s
        while not self._can_take():
            left = end - time.monotonic()
            # If nothing is copied, the workers are waited for: that has its own limit.
            if left <= 0 and state.copied is not None:
                raise StallError(
                    f"The device stalled: the copy of batch {self._step(state.copied)} has not "
                    f"ended {timeout_s:g} s after batch {self._step(state.taken)} was asked for. "
                    "It waits for work that was given to the device before: look for a kernel "
                    "that does not end."
                )
            state.changed.wait(min(left, _SLICE_S) if left > 0 else _SLICE_S)

    def _can_take(self) -> bool:
        """Whether the next batch is on its way; raises when it never will be."""
        state = self._state
        if self._turns.is_closed or state.ended:
            raise ClosedError("This pass over the epoch has ended: begin another.")
        assert state.taken == state.given_back
        if state.uploaded > state.taken:
            return True
        if state.failure is not None:
            raise state.failure
        return False

    def give_back(self) -> None:
        """Let the slot be written again after what the stream was given so far."""
        state = self._state
        if state.ended or state.taken == state.given_back:
            return
        zone = self._step(state.given_back) % ZONES
        self._events.take_back(zone)
        if self._terms.poison:
            self._events.overwrite(zone, lambda stream: self._upload.poison(zone, stream))
        with state.changed:
            state.given_back += 1
            state.changed.notify_all()

    def end(self) -> None:
        """End the pass; the thread ends by itself, with the copy that is running."""
        self._turns.close()
        with self._state.changed:
            self._state.ended = True
            self._state.failure = None  # its frames may hold the run
            self._state.changed.notify_all()

    def _step(self, turn: int) -> int:
        return self._turns.steps[turn]

    def _run(self) -> None:
        """What the thread does."""
        try:
            for turn in range(len(self._turns.steps)):
                self._move(turn)
        except BaseException as error:  # noqa: BLE001  # the consumer raises it, with traceback
            with self._state.changed:
                self._state.failure = None if self._state.ended else error
                self._state.changed.notify_all()

    def _move(self, turn: int) -> None:
        state, step = self._state, self._filled()
        zone = step % ZONES
        self._await_given_back(turn - ZONES)
        try:
            self._events.write(zone, lambda stream: self._upload.copy(zone, stream))
            self._upload.copy_beside(zone)
            with state.changed:
                state.uploaded, state.copied = turn + 1, turn
                state.changed.notify_all()
            self._events.settle(zone)
        except StationError as error:
            raise StationError(f"Batch {step} did not get to the device. {error}") from error
        if self._terms.poison:
            self._upload.poison_source(zone)
        with state.changed:
            state.copied = None
        self._turns.drain()

    def _filled(self) -> int:
        """The step of the next batch, once the workers have filled it."""
        while True:
            try:
                return self._turns.wait(self._terms.timeout_s, self._terms.progress)
            except StallError:
                if self._state.is_awaited:
                    raise
                # Nobody misses it yet: a loop may rest for longer than a disk does.

    def _await_given_back(self, turn: int) -> None:
        """Wait until the consumer has given back batch number `turn` of the pass."""
        state = self._state
        with state.changed:
            state.changed.wait_for(lambda: state.ended or state.given_back > turn)
            if state.ended:
                raise ClosedError("The pass has ended.")


class _State:
    """What the two threads tell each other."""

    def __init__(self) -> None:
        self.uploaded = 0  # batches that the copy stream has as work, or has done
        self.taken = 0
        self.given_back = 0
        self.copied: int | None = None  # the batch whose copy is waited for
        self.is_awaited = False  # whether a consumer waits
        self.ended = False
        self.failure: BaseException | None = None
        self.changed = threading.Condition()
