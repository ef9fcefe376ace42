"""The few calls of a CUDA runtime that the device arena is made of."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

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
        """Where it begins."""


class Cuda(Protocol):
    """One device; any thread may make any call.

    The work of one stream runs in order, that of two in any. `wait` and `record` are
    work of a stream; only `synchronize` makes the calling thread wait.

    A call that fails raises `StationError` with what the device said, which may be
    about work that was given to it earlier, by anyone.

    Attributes:
        name: Number and name of the device, for messages.
    """

    @property
    def name(self) -> str:
        """Number and name of the device, for messages."""

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
        """The bytes of `block` from `offset` on as an array, which keeps `block`."""

    def stream(self) -> Stream:
        """A new stream that does not wait for the legacy default one."""

    def consumer_stream(self, given: Any) -> Stream:
        """The stream that a consumer means: None is the current one of this thread.

        Raises:
            PlanError: `given` is no CUDA stream.
        """

    def event(self) -> Event:
        """A new event; until it is recorded nobody waits for it."""

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
