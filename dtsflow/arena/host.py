"""The host arena: the zones are the plan's input slots, so a batch is a view."""

from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from dtsflow.arena.arena import Delivery, Form
from dtsflow.config.configurable import configurable
from dtsflow.memory.align import aligned_bytes
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.station.double_buffer import ZONES, DoubleBuffer
from dtsflow.station.zone import Zone
from dtsflow.tensor.tensor import DTensor

_ZONE_REGIONS = ((Region.I_A_LABEL, Region.I_A_DATA), (Region.I_B_LABEL, Region.I_B_DATA))


@configurable
class Host:
    """Batches live in ordinary memory of this process."""

    @property
    def finishes(self) -> bool:
        """False: the workers do all of it."""
        return False

    def host_bytes(self, plan: MemoryPlan, forms: Mapping[str, Form]) -> int:  # noqa: ARG002
        """Return all bytes of the plan."""
        return plan.total_bytes

    def open(
        self,
        plan: MemoryPlan,
        forms: Mapping[str, Form],
        *,
        local_rank: int = 0,  # noqa: ARG002  # every rank has a memory of its own
    ) -> "HostArena":
        """Allocate what `plan` describes, for batches that have these forms."""
        return HostArena(plan, forms)


class HostArena:
    """One aligned allocation of `plan.total_bytes` bytes, and the zones within it.

    Labels, pixels and each further field begin at the same addresses in all forms.
    """

    def __init__(self, plan: MemoryPlan, forms: Mapping[str, Form]) -> None:
        memory = aligned_bytes(plan.total_bytes)
        most = max(form.rows for form in forms.values())
        slots = [
            _Slots(memory, plan.region_tensors(labels)[0], plan.region_tensors(data), rows=most)
            for labels, data in _ZONE_REGIONS
        ]
        self.zones = {
            name: (slots[0].zone(form), slots[1].zone(form)) for name, form in forms.items()
        }

    def feed(  # as Arena has it
        self,
        form: str,
        double_buffer: DoubleBuffer,
        *,
        timeout_s: float,
        progress: Callable[[], str],
        poison: bool,
        stream: Any = None,  # noqa: ARG002  # a host has no streams
    ) -> "HostFeed":
        """Hand over the batches that workers fill in `double_buffer`."""
        return HostFeed(self.zones[form], double_buffer, timeout_s, progress, poison=poison)

    @property
    def threads(self) -> Sequence[Thread]:
        """None: nothing moves batches here."""
        return ()

    def close(self, *, wait: bool = True) -> None:
        """Do nothing: nothing is left to be done."""


class HostFeed:
    """The zones of a pass in turn; satisfies Feed."""

    def __init__(
        self,
        zones: tuple[Zone, Zone],
        double_buffer: DoubleBuffer,
        timeout_s: float,
        progress: Callable[[], str],
        *,
        poison: bool,
    ) -> None:
        self._zones = zones
        self._double_buffer = double_buffer
        self._timeout_s, self._progress = timeout_s, progress
        self._poison = poison
        self._taken = 0  # the zone of the batch that was taken last
        self._ended = False

    def take(self) -> Delivery:
        """Return the next batch, once it is filled."""
        step = self._double_buffer.wait(self._timeout_s, self._progress)
        self._taken = step % ZONES
        zone = self._zones[self._taken]
        return Delivery(
            step=step,
            zone=self._taken,
            images=zone.images,
            padded=zone.padded,
            labels=zone.labels,
            valid=zone.valid,
            sample_ids=zone.sample_ids,
            fields={name: field.array for name, field in zone.fields.items()},
        )

    def give_back(self) -> None:
        """Give the zone back to the workers, unless the pass has ended."""
        if not self._ended:
            if self._poison:
                self._zones[self._taken].poison()
            self._double_buffer.drain()

    def end(self) -> None:
        """Give back no more zones: they are those of another pass now."""
        self._ended = True


class _Slots:
    """The slots of one zone, and what lies beside them for as many rows."""

    def __init__(
        self,
        memory: npt.NDArray[np.uint8],
        labels: DTensor,
        data: Sequence[DTensor],
        *,
        rows: int,
    ) -> None:
        first, last = labels.offset, data[-1].offset + data[-1].slot_bytes
        self._memory = memory[first:last]
        self._data = data[0].offset - first
        self._fields = {tensor.name: tensor.offset - first for tensor in data[1:]}
        self._valid = np.zeros(rows, np.bool_)
        self._sample_ids = np.full(rows, -1, np.int64)

    def zone(self, form: Form) -> Zone:
        """Return the zone as batches of this form use it."""
        rows = form.rows
        pixels = form.stored.within(self._memory, self._data, rows)
        return Zone(
            slots=self._memory,
            labels=self._memory[: 4 * rows].view(np.int32),
            padded=pixels.stored,
            images=pixels.array,
            valid=self._valid[:rows],
            sample_ids=self._sample_ids[:rows],
            data_offset=self._data,
            fields={
                field.name: field.within(self._memory, self._fields[field.name], rows)
                for field in form.fields
            },
        )
