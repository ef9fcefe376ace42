"""The host arena: the zones are the plan's input slots, so a batch is a view."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dtsflow.configurable import configurable
from dtsflow.memory.align import aligned_bytes
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtensor import DTensor

_ZONE_REGIONS = ((Region.I_A_LABEL, Region.I_A_DATA), (Region.I_B_LABEL, Region.I_B_DATA))


@configurable
class Host:
    """Batches live in ordinary memory of this process."""

    def open(self, plan: MemoryPlan, stored_channels: int) -> "HostArena":
        """Allocate what `plan` describes; pixels take `stored_channels` channels."""
        return HostArena(plan, stored_channels)


@dataclass(frozen=True, slots=True)
class _Slots:
    labels: DTensor
    data: DTensor


class HostArena:
    """One aligned allocation of `plan.total_bytes` bytes, and the zones within it."""

    def __init__(self, plan: MemoryPlan, stored_channels: int) -> None:
        self._memory = aligned_bytes(plan.total_bytes)
        slots = [
            _Slots(*(plan.region_tensors(region)[0] for region in pair)) for pair in _ZONE_REGIONS
        ]
        self.zones = (
            self._zone(slots[0], stored_channels),
            self._zone(slots[1], stored_channels),
        )

    def _zone(self, slots: _Slots, stored_channels: int) -> Zone:
        batch, height, width, channels = slots.data.shape
        padded = self._array(slots.data, (batch, height, width, stored_channels))
        return Zone(
            slots=self._memory[slots.labels.offset : slots.data.offset + slots.data.slot_bytes],
            labels=self._array(slots.labels, (batch,)).view(np.int32),
            padded=padded,
            images=padded[..., :channels],
            valid=np.zeros(batch, np.bool_),
            sample_ids=np.full(batch, -1, np.int64),
            data_offset=slots.data.offset - slots.labels.offset,
        )

    def _array(self, tensor: DTensor, shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
        size = int(np.prod(shape)) * tensor.dtype.itemsize
        raw = self._memory[tensor.offset : tensor.offset + size]
        return raw.view(tensor.dtype.numpy).reshape(shape)
