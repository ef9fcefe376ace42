"""The device arena: a plan in the memory of a device, and the way of batches there."""

import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dtsflow.arena.cuda import Cuda
from dtsflow.arena.device_feed import DeviceFeed, Terms
from dtsflow.arena.device_memory import DeviceMemory
from dtsflow.arena.finishing import Finishing
from dtsflow.arena.form import Form
from dtsflow.arena.pinned_zones import pinned_zones
from dtsflow.arena.slot_events import SlotEvents
from dtsflow.arena.transfer import as_stored, room_for
from dtsflow.arena.upload import Beside, Upload
from dtsflow.errors import ClosedError, StallError, StationError
from dtsflow.memory.plan import MemoryPlan
from dtsflow.station.turns import Turns
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtensor import DTensor
from dtsflow.tensor.layout import change_layout
from dtsflow.tensor.tensor import Tensor

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
        turns: Turns,
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
        feed = DeviceFeed(turns, self._uploads[form], self._events, terms)
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
        """The address of a tensor of the plan on the device.

        Raises:
            MemoryPlanError: The plan has no such tensor.
        """
        return self._memory.ptr_at(dtensor)

    def view(self, dtensor: DTensor) -> Any:
        """A tensor of the plan as a cupy array of its logical shape.

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
        """The thread that uploads, while there is one."""
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
