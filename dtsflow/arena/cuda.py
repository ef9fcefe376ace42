"""The CUDA side of the device arena: runtime calls, plan memory and input slots.

The few runtime calls that the arena needs are here, the device memory that holds a
plan, and the events that keep copies and consumers apart at the two input slots.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from dtsflow.errors import MemoryPlanError
from dtsflow.memory.align import ALIGN
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.station.double_buffer import ZONES
from dtsflow.tensor.tensor import DTensor

Stream = Any
"""A queue of work of a device; only ever handed back to the runtime that it is from."""

Event = Any
"""A point in a stream's work; made by `Cuda.event`."""


class Block(Protocol):
    """Memory of a device, free once nothing refers to it.

    Attributes:
        address: Where it begins.
    """

    @property
    def address(self) -> int:
        """Return where it begins."""


class Cuda(Protocol):
    """One device; any thread may make any call.

    The work of one stream runs in order, that of two in any. `wait` and `record` are
    work of a stream; only `synchronize` makes the calling thread wait.

    A call that fails raises `StationError` with the device's message, which may be
    about work that was given to it earlier, by anyone.

    Attributes:
        name: Number and name of the device, for messages.
    """

    @property
    def name(self) -> str:
        """Return the number and name of the device, for messages."""

    def allocate(self, nbytes: int) -> Block:
        """Memory of the device, holding anything.

        Raises:
            MemoryPlanError: It has not as much free; the message has both numbers.
        """

    def pinned(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Zeros in memory of the host that the device copies from without a detour.

        Raises:
            MemoryPlanError: The system does not lock as much.
        """

    def array(self, block: Block, offset: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """Return the bytes of `block` from `offset` on; the array keeps `block`."""

    def stream(self) -> Stream:
        """Return a new stream that does not wait for the legacy default one."""

    def consumer_stream(self, given: Any) -> Stream:
        """Return the stream that a consumer means.

        None is the current one of this thread.

        Raises:
            PlanError: `given` is not a CUDA stream.
        """

    def event(self) -> Event:
        """Return a new event.

        Until it is recorded nobody waits for it.
        """

    def record(self, event: Event, stream: Stream) -> None:
        """Let `event` mean all work that `stream` has been given so far."""

    def wait(self, stream: Stream, event: Event) -> None:
        """Let later work of `stream` wait for what `event` means now."""

    def synchronize(self, event: Event) -> None:
        """Wait here for what `event` means now; other threads go on."""

    def copy(self, target: int, source: int, nbytes: int, stream: Stream) -> None:
        """Copy from address to address, as work of `stream`."""

    def fill(self, address: int, byte: int, nbytes: int, stream: Stream) -> None:
        """Set bytes of the device, as work of `stream`."""

    def launch(self, kernel: str, threads: int, arguments: Sequence[int], stream: Stream) -> None:
        """Run a kernel of normalize.cu, as work of `stream`.

        The arguments, addresses among them, are passed as 64-bit integers.
        """


_SLOTS: Final = ((Region.I_A_LABEL, Region.I_A_DATA), (Region.I_B_LABEL, Region.I_B_DATA))


class DeviceMemory:
    """One allocation for all of `plan`, from a multiple of 256 bytes on.

    Attributes:
        cuda: The device.
        plan: What lies where.

    Raises:
        MemoryPlanError: The device has not as much free.
    """

    def __init__(self, cuda: Cuda, plan: MemoryPlan) -> None:
        self.cuda = cuda
        self.plan = plan
        # A runtime may align to less than the plan counts on, so take a little more.
        self._block = cuda.allocate(plan.total_bytes + ALIGN)
        self._skip = -self._block.address % ALIGN

    @property
    def base(self) -> int:
        """Return the address of the plan's byte 0."""
        return self._block.address + self._skip

    def slots(self, zone: int) -> tuple[DTensor, DTensor]:
        """Return the tensors of labels and pixels that an input zone consists of."""
        label, data = (self.plan.region_tensors(region)[0] for region in _SLOTS[zone])
        return label, data

    def fields(self, zone: int) -> dict[str, DTensor]:
        """Return the tensors of a zone's further fields, by name."""
        return {tensor.name: tensor for tensor in self.plan.region_tensors(_SLOTS[zone][1])[1:]}

    def ptr_at(self, tensor: DTensor) -> int:
        """Return the address of a tensor of the plan.

        It is looked up by its id.

        Raises:
            MemoryPlanError: The plan has no such tensor, or its slot is smaller.
        """
        return self.base + self._offset(tensor)

    def view(self, tensor: DTensor) -> Any:
        """Return a tensor of the plan in its logical shape, without its padding.

        Raises:
            MemoryPlanError: As `ptr_at`.
        """
        n, h, w, c = tensor.shape
        padded = self.array(tensor, (n, h, w, tensor.padded_c), tensor.dtype.numpy)
        return padded[..., :c]

    def array(self, tensor: DTensor, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return the beginning of a tensor's slot as an array of any shape that fits.

        Raises:
            MemoryPlanError: As `ptr_at`.
        """
        offset = self._skip + self._offset(tensor)
        assert int(np.prod(shape)) * dtype.itemsize <= tensor.slot_bytes
        return self.cuda.array(self._block, offset, shape, dtype)

    def _offset(self, tensor: DTensor) -> int:
        placed = self.plan.tensor(tensor.id)
        n, h, w, _ = tensor.shape
        needed = n * h * w * tensor.padded_c * tensor.dtype.itemsize
        if needed > placed.slot_bytes or tensor.region is not placed.region:
            raise MemoryPlanError(
                f"{tensor} needs {needed} bytes, and what this plan has under its number is "
                f"{placed} with a slot of {placed.slot_bytes} bytes. Use a tensor that this "
                "plan's allocate() returned, or a variant of it."
            )
        return placed.offset


class SlotEvents:
    """Two events a slot: `written`, that its batch is there, and `released`.

    A slot is written by the copy stream, then read by a consumer's stream, in turn. All
    waits but `settle` are the device's: no thread stands still for them.

    Args:
        cuda: The device.
    """

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._copies = cuda.stream()
        self._written: list[Event] = [cuda.event() for _ in range(ZONES)]
        self._released: list[Event] = [cuda.event() for _ in range(ZONES)]
        self._readers: list[Stream | None] = [None] * ZONES

    def write(self, zone: int, work: Callable[[Stream], None]) -> None:
        """Let the copy stream do `work` on a slot that was taken back, and mark it."""
        self.overwrite(zone, work)
        self._cuda.record(self._written[zone], self._copies)

    def overwrite(self, zone: int, work: Callable[[Stream], None]) -> None:
        """Let the copy stream do `work` once the slot's last reader is done."""
        self._cuda.wait(self._copies, self._released[zone])
        work(self._copies)

    def settle(self, zone: int) -> None:
        """Wait here until the last write to a slot has run, and its source is free."""
        self._cuda.synchronize(self._written[zone])

    def hand_out(self, zone: int, reader: Stream) -> None:
        """Let later work of `reader` find the slot written."""
        self._cuda.wait(reader, self._written[zone])
        self._readers[zone] = reader

    def take_back(self, zone: int) -> None:
        """Let the slot be free once its reader has done what it was given so far."""
        reader, self._readers[zone] = self._readers[zone], None
        if reader is not None:
            self._cuda.record(self._released[zone], reader)

    def take_back_all(self) -> None:
        """Take back what a pass that was left early still has in hand."""
        for zone in range(ZONES):
            self.take_back(zone)

    def run(self, work: Callable[[Stream], None]) -> None:
        """Let the copy stream do `work` that concerns no slot, and wait for it here."""
        done = self._cuda.event()
        work(self._copies)
        self._cuda.record(done, self._copies)
        self._cuda.synchronize(done)
