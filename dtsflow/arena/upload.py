"""The upload of the batches of one form, from their zones to the device.

The workers write to zones on the host when batches live on a device. The device does
the last step of preprocessing.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dtsflow.arena.arena import Delivery, FieldForm, Form
from dtsflow.arena.cuda import DeviceMemory, Stream
from dtsflow.arena.staging import Staging, staged_shape
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.native.core import Finish
from dtsflow.spec import IMAGES
from dtsflow.station.double_buffer import ZONES
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.tensor import DTensor

KERNELS: Final = {
    DType.FP32: "normalize_fp32",
    DType.FP16: "normalize_fp16",
    DType.BF16: "normalize_bf16",
}


class Finishing:
    """Normalises the batches of one phase on the device, from UINT8 zones.

    Args:
        memory: Its plan has what `reserve_staging` reserved.
        phase: Name of the phase.
        form: What it puts into a zone.
        finish: Its last step.

    Raises:
        MemoryPlanError: The staging tensors are not in the plan.
    """

    def __init__(self, memory: DeviceMemory, phase: str, form: Form, finish: Finish) -> None:
        staging = Staging(memory.plan, phase)
        self._memory = memory
        self._finish = finish
        self._shape = staged_shape(form)
        self._stored = form.stored_channels
        self._pixels = memory.ptr_at(staging.pixels)
        self._valid = memory.ptr_at(staging.valid)
        self._factors = memory.ptr_at(staging.factors)
        # Kept here, for the copy of it runs later.
        self._host_factors = np.stack([finish.scale, finish.offset])

    def prepare(self, stream: Stream) -> None:
        """Bring scale and offset to the device, as work of `stream`."""
        factors = self._host_factors
        self._memory.cuda.copy(self._factors, factors.ctypes.data, factors.nbytes, stream)

    def run(self, zone: Zone, target: int, stream: Stream) -> None:
        """Make the pixels at `target` of those of `zone`, as work of `stream`."""
        cuda, shape = self._memory.cuda, self._shape
        cuda.copy(self._pixels, zone.padded.ctypes.data, zone.padded.nbytes, stream)
        cuda.copy(self._valid, zone.valid.ctypes.data, zone.valid.nbytes, stream)
        offset = self._factors + self._finish.scale.nbytes
        sides = (shape.n, shape.h * shape.w, shape.c, self._stored)
        cuda.launch(
            KERNELS[self._finish.dtype],
            shape.n * shape.h * shape.w,
            (self._pixels, self._valid, self._factors, offset, target, *sides),
            stream,
        )


BESIDE_ROW_BYTES: Final = 1 + 8  # `valid` and `sample_ids` of one row
_POISON: Final = 0xFF


class Beside:
    """The host arrays that go with a batch of up to `rows` rows, for both zones.

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
        """Return the batch of `step`, as it is found in the slots of `zone`."""
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


Bytes = npt.NDArray[np.uint8]


def pinned_zones(memory: DeviceMemory, forms: Mapping[str, Form]) -> dict[str, tuple[Zone, Zone]]:
    """Return two zones in pinned memory, by name of the form.

    The forms share them.

    A zone is laid out as its slots are on the device, so that one copy moves a batch,
    and `slots` ends where the form does. With a `finish` the pixels are UINT8 without
    padding, so the zone is smaller, but where further fields lie behind them.

    Raises:
        MemoryPlanError: The system does not lock as much memory.
    """
    cuda = memory.cuda
    offsets, nbytes = _offsets(memory.plan), zone_bytes(memory.plan, forms)
    rows = max(form.rows for form in forms.values())
    pinned = [(cuda.pinned(nbytes), cuda.pinned(rows), _no_ids(rows)) for _ in range(ZONES)]
    return {
        name: (_zone(form, offsets, *pinned[0]), _zone(form, offsets, *pinned[1]))
        for name, form in forms.items()
    }


def zone_bytes(plan: MemoryPlan, forms: Mapping[str, Form]) -> int:
    """Return the size of a zone that is for all forms."""
    offsets = _offsets(plan)
    return max(_end(form, offsets) for form in forms.values())


def _offsets(plan: MemoryPlan) -> dict[str, int]:
    """Return where in a zone the images, or their stand-in, and each field begin."""
    first = plan.region_tensors(Region.I_A_LABEL)[0].offset
    main, *others = plan.region_tensors(Region.I_A_DATA)
    fields = {tensor.name: tensor.offset - first for tensor in others}
    return fields | {IMAGES: main.offset - first}


def _end(form: Form, offsets: Mapping[str, int]) -> int:
    main = offsets[IMAGES] + form.stored.nbytes(form.rows)
    return max(main, *(offsets[part.name] + part.nbytes(form.rows) for part in form.fields), 0)


def _no_ids(rows: int) -> npt.NDArray[np.int64]:
    return np.full(rows, -1, np.int64)


def _zone(
    form: Form,
    offsets: Mapping[str, int],
    slots: Bytes,
    valid: Bytes,
    ids: npt.NDArray[np.int64],
) -> Zone:
    rows = form.rows
    pixels = form.stored.within(slots, offsets[IMAGES], rows)
    return Zone(
        slots=slots[: _end(form, offsets)],
        labels=slots[: 4 * rows].view(np.int32),
        padded=pixels.stored,
        images=pixels.array,
        valid=valid[:rows].view(np.bool_),
        sample_ids=ids[:rows],
        data_offset=offsets[IMAGES],
        fields={one.name: one.within(slots, offsets[one.name], rows) for one in form.fields},
    )
