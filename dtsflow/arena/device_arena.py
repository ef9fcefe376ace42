"""The device arena: a plan in the memory of a device, and the way of batches there.

A pass over an epoch has its batches on a device. Single tensors of a plan move between
host and device, with or without padded channels.
"""

import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dtsflow.arena.arena import Delivery, Form
from dtsflow.arena.cuda import Cuda, DeviceMemory, SlotEvents, Stream
from dtsflow.arena.upload import Beside, Finishing, Upload, pinned_zones
from dtsflow.errors import ClosedError, MemoryPlanError, StallError, StationError
from dtsflow.memory.align import aligned_bytes
from dtsflow.memory.plan import MemoryPlan
from dtsflow.station.double_buffer import ZONES, DoubleBuffer
from dtsflow.station.zone import Zone
from dtsflow.tensor.tensor import DTensor, Tensor, change_layout

# Python may not see a Ctrl-C that comes just before a wait begins until it ends.
_SLICE_S: Final = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """The terms on which a pass was asked for.

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

    def __init__(
        self, double_buffer: DoubleBuffer, upload: Upload, events: SlotEvents, terms: Terms
    ) -> None:
        self._double_buffer = double_buffer
        self._upload = upload
        self._events = events
        self._terms = terms
        self._state = _State()
        self._reader: Any = None
        self.thread = threading.Thread(target=self._run, name="dtsflow-upload", daemon=True)
        self.thread.start()

    def take(self) -> Delivery:
        """Return the next batch.

        Work given to its stream from now on finds the batch there.

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
        """Tell whether the next batch is on its way.

        Raises when that will never happen.
        """
        state = self._state
        if self._double_buffer.is_closed or state.ended:
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
        self._double_buffer.close()
        with self._state.changed:
            self._state.ended = True
            self._state.failure = None  # its frames may hold the run
            self._state.changed.notify_all()

    def _step(self, turn: int) -> int:
        return self._double_buffer.steps[turn]

    def _run(self) -> None:
        """Run the thread."""
        try:
            for turn in range(len(self._double_buffer.steps)):
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
        self._double_buffer.drain()

    def _filled(self) -> int:
        """Return the step of the next batch, once the workers have filled it."""
        while True:
            try:
                return self._double_buffer.wait(self._terms.timeout_s, self._terms.progress)
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
    """The state that the two threads share."""

    def __init__(self) -> None:
        self.uploaded = 0  # batches that the copy stream has as work, or has done
        self.taken = 0
        self.given_back = 0
        self.copied: int | None = None  # the batch whose copy is waited for
        self.is_awaited = False  # whether a consumer waits
        self.ended = False
        self.failure: BaseException | None = None
        self.changed = threading.Condition()


Array = npt.NDArray[Any]


def as_stored(tensor: Tensor, dtensor: DTensor) -> Array:
    """Return the elements of a host tensor as its slot holds them.

    Padding is zero.

    It is the tensor's own memory where nothing has to be changed.

    Raises:
        MemoryPlanError: Shape or type are not those of `dtensor`.
    """
    stored = room_for(tensor, dtensor)
    if stored is not tensor.array:
        change_layout(tensor.array, stored, dtensor.shape.c)
    return stored


def room_for(tensor: Tensor, dtensor: DTensor) -> Array:
    """Host memory laid out as a slot: the tensor's own where nothing is padded.

    Raises:
        MemoryPlanError: Shape or type are not those of `dtensor`.
    """
    if tensor.shape != dtensor.shape or tensor.dtype is not dtensor.dtype:
        raise MemoryPlanError(
            f"a host tensor {tensor.dtype.value}{tensor.shape} was given for {dtensor}. Nothing "
            f"is converted on the way: give {dtensor.dtype.value}{dtensor.shape}."
        )
    if dtensor.is_compact:
        return tensor.array
    n, h, w, _ = dtensor.shape
    nbytes = n * h * w * dtensor.padded_c * dtensor.dtype.itemsize
    return aligned_bytes(nbytes).view(dtensor.dtype.numpy).reshape(n, h, w, dtensor.padded_c)


log = logging.getLogger(__name__)

_CLOSE_S: Final = 10.0  # what a device that hangs may delay the end of a run


class DeviceArena:
    """All of `plan` on one device, zeros at first, and the zones on the host.

    Raises:
        MemoryPlanError: Device or host have not as much free, or `plan` lacks what
            `reserve_staging` reserves.
    """

    def __init__(self, plan: MemoryPlan, forms: Mapping[str, Form], cuda: Cuda) -> None:
        self._memory = DeviceMemory(cuda, plan)
        self._zones = pinned_zones(self._memory, forms)
        self._events = SlotEvents(cuda)
        base, nbytes = self._memory.base, plan.total_bytes
        self._events.run(lambda stream: cuda.fill(base, 0, nbytes, stream))
        beside = Beside(max(form.rows for form in forms.values()))
        self._uploads = {
            name: Upload(self._memory, form, self._zones[name], beside, self._finishing(name, form))
            for name, form in forms.items()
        }
        self._feed: Callable[[], DeviceFeed | None] = lambda: None
        self._closed = False

    def _finishing(self, phase: str, form: Form) -> Finishing | None:
        if form.finish is None:
            return None
        finishing = Finishing(self._memory, phase, form, form.finish)
        self._events.run(finishing.prepare)
        return finishing

    @property
    def zones(self) -> Mapping[str, tuple[Zone, Zone]]:
        """By name of the form, the two pieces of pinned memory that workers write."""
        return self._zones

    def feed(
        self,
        form: str,
        double_buffer: DoubleBuffer,
        *,
        timeout_s: float,
        progress: Callable[[], str],
        poison: bool,
        stream: Any = None,
    ) -> DeviceFeed:
        """Begin to hand out the batches of a pass; an earlier one ends.

        It must come before the workers of the pass begin: only then is no copy of the
        pass before still reading the zones that they write. The consumer works on
        `stream`, by default the current one where the first batch is asked for.

        Raises:
            ClosedError: The arena is closed.
            StallError: A copy of the pass before did not end in `timeout_s` seconds.
        """
        if self._closed:
            raise ClosedError("The run is closed: open the plan again to read more batches.")
        if not self._leave(timeout_s):
            raise StallError(
                f"The device stalled: a copy of the pass before has not ended after {timeout_s:g} "
                "s. It waits for work that was given to the device: look for a kernel that does "
                "not end."
            )
        self._events.take_back_all()
        cuda = self._memory.cuda
        terms = Terms(timeout_s, progress, poison, lambda: cuda.consumer_stream(stream))
        feed = DeviceFeed(double_buffer, self._uploads[form], self._events, terms)
        # Weak, for a pass holds its errors, and their frames the run. Its thread holds
        # it for as long as there is something to wait for.
        self._feed = weakref.ref(feed)
        return feed

    def _leave(self, timeout_s: float) -> bool:
        """End the pass before; tells whether its thread is at its end."""
        feed = self._feed()
        if feed is None:
            return True
        feed.end()
        if feed.thread is not threading.current_thread():
            feed.thread.join(timeout_s)
        return not feed.thread.is_alive()

    def ptr_at(self, dtensor: DTensor) -> int:
        """Return the address of a tensor of the plan on the device.

        Raises:
            MemoryPlanError: The plan has no such tensor.
        """
        return self._memory.ptr_at(dtensor)

    def view(self, dtensor: DTensor) -> Any:
        """Return a tensor of the plan as a cupy array of its logical shape.

        Raises:
            MemoryPlanError: The plan has no such tensor.
        """
        return self._memory.view(dtensor)

    def transfer_to_rank(self, dtensor: DTensor, tensor: Tensor, *, stream: Any = None) -> None:
        """Fill a tensor of the plan from a host one; it is there on return.

        It waits for the work that `stream`, by default the current one, has been given.

        Raises:
            MemoryPlanError: Shape or dtype differ, or the plan has no such tensor.
            StationError: The device failed.
        """
        source = as_stored(tensor, dtensor)
        self._copy(self.ptr_at(dtensor), source.ctypes.data, source.nbytes, stream)

    def fetch_from_rank(self, dtensor: DTensor, tensor: Tensor, *, stream: Any = None) -> None:
        """Fill a host tensor from one of the plan, after the work of `stream`.

        Raises:
            MemoryPlanError: Shape or dtype differ, or the plan has no such tensor.
            StationError: The device failed.
        """
        target = room_for(tensor, dtensor)
        self._copy(target.ctypes.data, self.ptr_at(dtensor), target.nbytes, stream)
        if target is not tensor.array:
            change_layout(target, tensor.array, dtensor.shape.c)

    def _copy(self, target: int, source: int, nbytes: int, given: Any) -> None:
        cuda = self._memory.cuda
        stream, done = cuda.consumer_stream(given), cuda.event()
        cuda.copy(target, source, nbytes, stream)
        cuda.record(done, stream)
        cuda.synchronize(done)

    def pin(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Zeros in page-locked memory of the host, for tensors that are transferred.

        Raises:
            MemoryPlanError: The system does not lock as much.
        """
        return self._memory.cuda.pinned(nbytes)

    @property
    def threads(self) -> Sequence[threading.Thread]:
        """Return the thread that uploads, while there is one."""
        feed = self._feed()
        return [] if feed is None else [feed.thread]

    def close(self, *, wait: bool = True) -> None:
        """End the pass. The memory is free once nothing refers to a batch any more.

        Without `wait` what is still on its way to the device gets there later; that is
        for a caller who may hold a lock that others want.
        """
        self._closed = True
        if not wait:
            if (feed := self._feed()) is not None:
                feed.end()
            return
        if not self._leave(_CLOSE_S):
            log.warning("the device still copies %g s after the end of the run", _CLOSE_S)
            return
        try:
            self._events.run(lambda _: None)
        except StationError as error:
            log.warning("the device had failed when the run ended: %s", error)
