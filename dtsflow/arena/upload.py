"""How the batches of one form get from their zones to the device."""

from dataclasses import replace
from typing import Any, Final

import numpy as np

from dtsflow.arena.arena import Delivery
from dtsflow.arena.cuda import Stream
from dtsflow.arena.device_memory import DeviceMemory
from dtsflow.arena.finishing import Finishing
from dtsflow.arena.form import FieldForm, Form
from dtsflow.station.turns import ZONES
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtensor import DTensor

BESIDE_ROW_BYTES: Final = 1 + 8  # `valid` and `sample_ids` of one row
_POISON: Final = 0xFF


class Beside:
    """What a batch of up to `rows` rows carries along on the host, for both zones.

    Copies, for a pinned zone is written again while its batch is in use.
    """

    def __init__(self, rows: int) -> None:
        self.valid = [np.zeros(rows, np.bool_) for _ in range(ZONES)]
        self.sample_ids = [np.full(rows, -1, np.int64) for _ in range(ZONES)]


class Upload:
    """The work that moves the batches of one form, and the arrays they are found in.

    Nothing here waits for anything: `SlotEvents` and `DeviceFeed` do.
    """

    def __init__(
        self,
        memory: DeviceMemory,
        form: Form,
        zones: tuple[Zone, Zone],
        beside: Beside,
        finishing: Finishing | None,
    ) -> None:
        self._memory = memory
        self._zones = zones
        self._finishing = finishing
        self._deliveries = [self._delivery(form, zone, beside) for zone in range(ZONES)]

    def copy(self, zone: int, stream: Stream) -> None:
        """Fill the slots of `zone` on the device from its pinned memory."""
        cuda, source = self._memory.cuda, self._zones[zone]
        labels, pixels = (self._memory.ptr_at(slot) for slot in self._memory.slots(zone))
        if self._finishing is None:
            cuda.copy(labels, source.slots.ctypes.data, source.slots.nbytes, stream)
        else:
            cuda.copy(labels, source.labels.ctypes.data, source.labels.nbytes, stream)
            self._finishing.run(source, pixels, stream)
            slots = self._memory.fields(zone)
            for name, field in source.fields.items():
                target = self._memory.ptr_at(slots[name])
                cuda.copy(target, field.stored.ctypes.data, field.stored.nbytes, stream)

    def copy_beside(self, zone: int) -> None:
        """Copy what stays on the host, at once."""
        source, target = self._zones[zone], self._deliveries[zone]
        target.valid[:] = source.valid
        target.sample_ids[:] = source.sample_ids

    def poison_source(self, zone: int) -> None:
        """Fill the pinned zone with 0xFF, so that a row that nobody writes shows."""
        self._zones[zone].poison()

    def poison(self, zone: int, stream: Stream) -> None:
        """Fill what was delivered with 0xFF, so that reading it too late shows."""
        for slot in (*self._memory.slots(zone), *self._memory.fields(zone).values()):
            address = self._memory.ptr_at(slot)
            self._memory.cuda.fill(address, _POISON, slot.slot_bytes, stream)
        self._deliveries[zone].valid.view(np.uint8)[:] = _POISON
        self._deliveries[zone].sample_ids.view(np.uint8)[:] = _POISON

    def delivery(self, zone: int, step: int) -> Delivery:
        """The batch of `step`, as it is found in the slots of `zone`."""
        return replace(self._deliveries[zone], step=step)

    def _delivery(self, form: Form, zone: int, beside: Beside) -> Delivery:
        labels, pixels = self._memory.slots(zone)
        main = form.delivered
        padded = self._memory.array(pixels, main.stored_shape(form.rows), main.dtype.numpy)
        slots = self._memory.fields(zone)
        return Delivery(
            step=-1,
            zone=zone,
            images=main.logical(padded),
            padded=padded,
            labels=self._memory.array(labels, (form.rows,), labels.dtype.numpy),
            valid=beside.valid[zone][: form.rows],
            sample_ids=beside.sample_ids[zone][: form.rows],
            fields={
                field.name: self._field(slots[field.name], field, form) for field in form.fields
            },
        )

    def _field(self, slot: DTensor, field: FieldForm, form: Form) -> Any:
        shape = field.stored_shape(form.rows)
        return field.logical(self._memory.array(slot, shape, field.dtype.numpy))
