"""The zones that the workers write when batches live on a device."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dtsflow.arena.device_memory import DeviceMemory
from dtsflow.arena.form import Form
from dtsflow.arena.staging import staged_shape
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.station.turns import ZONES
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtype import DType

Bytes = npt.NDArray[np.uint8]


def pinned_zones(memory: DeviceMemory, forms: Mapping[str, Form]) -> dict[str, tuple[Zone, Zone]]:
    """Two zones in pinned memory, by phase; the phases share them.

    A zone is laid out as its slots are on the device, so that one copy moves a batch,
    and `slots` ends where the phase's pixels do. With a `finish` the pixels are UINT8
    without padding, so the zone is smaller.

    Raises:
        MemoryPlanError: The system does not lock as much memory.
    """
    cuda = memory.cuda
    data_offset, nbytes = zone_bytes(memory.plan, forms)
    rows = max(form.rows for form in forms.values())
    pinned = [(cuda.pinned(nbytes), cuda.pinned(rows), _no_ids(rows)) for _ in range(ZONES)]
    return {
        name: (_zone(form, data_offset, *pinned[0]), _zone(form, data_offset, *pinned[1]))
        for name, form in forms.items()
    }


def zone_bytes(plan: MemoryPlan, forms: Mapping[str, Form]) -> tuple[int, int]:
    """Where the pixels begin in a zone, and the size of one that is for all phases."""
    label, data = plan.region_tensors(Region.I_A_LABEL)[0], plan.region_tensors(Region.I_A_DATA)[0]
    data_offset = data.offset - label.offset
    return data_offset, data_offset + max(_pixel_bytes(form) for form in forms.values())


def _no_ids(rows: int) -> npt.NDArray[np.int64]:
    return np.full(rows, -1, np.int64)


def _zone(
    form: Form, data_offset: int, slots: Bytes, valid: Bytes, ids: npt.NDArray[np.int64]
) -> Zone:
    shape, dtype = _stored(form)
    end = data_offset + _pixel_bytes(form)
    padded = slots[data_offset:end].view(dtype.numpy).reshape(shape)
    return Zone(
        slots=slots[:end],
        labels=slots[: 4 * form.rows].view(np.int32),
        padded=padded,
        images=padded[..., : form.pixels.channels],
        valid=valid[: form.rows].view(np.bool_),
        sample_ids=ids[: form.rows],
        data_offset=data_offset,
    )


def _stored(form: Form) -> tuple[tuple[int, ...], DType]:
    if form.finish is None:
        return form.shape, form.pixels.dtype
    return tuple(staged_shape(form)), DType.UINT8


def _pixel_bytes(form: Form) -> int:
    shape, dtype = _stored(form)
    return int(np.prod(shape)) * dtype.itemsize
