"""The zones that the workers write when batches live on a device."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dtsflow.arena.device_memory import DeviceMemory
from dtsflow.arena.form import Form
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.spec import IMAGES
from dtsflow.station.turns import ZONES
from dtsflow.station.zone import Zone

Bytes = npt.NDArray[np.uint8]


def pinned_zones(memory: DeviceMemory, forms: Mapping[str, Form]) -> dict[str, tuple[Zone, Zone]]:
    """Two zones in pinned memory, by name of the form; the forms share them.

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
    """The size of a zone that is for all forms."""
    offsets = _offsets(plan)
    return max(_end(form, offsets) for form in forms.values())


def _offsets(plan: MemoryPlan) -> dict[str, int]:
    """Where in a zone images, or what is in their place, and further fields begin."""
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
