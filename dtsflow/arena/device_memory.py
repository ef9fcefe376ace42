"""The memory of a device that holds a plan."""

from typing import Any, Final

import numpy as np

from dtsflow.arena.cuda import Cuda
from dtsflow.errors import MemoryPlanError
from dtsflow.memory.align import ALIGN
from dtsflow.memory.plan import MemoryPlan
from dtsflow.memory.region import Region
from dtsflow.tensor.dtensor import DTensor

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
        """The address of the plan's byte 0."""
        return self._block.address + self._skip

    def slots(self, zone: int) -> tuple[DTensor, DTensor]:
        """The tensors of labels and pixels that an input zone consists of."""
        label, data = (self.plan.region_tensors(region)[0] for region in _SLOTS[zone])
        return label, data

    def fields(self, zone: int) -> dict[str, DTensor]:
        """The tensors of a zone's further fields, by name."""
        return {tensor.name: tensor for tensor in self.plan.region_tensors(_SLOTS[zone][1])[1:]}

    def ptr_at(self, tensor: DTensor) -> int:
        """The address of a tensor of the plan; it is looked up by its id.

        Raises:
            MemoryPlanError: The plan has no such tensor, or its slot is smaller.
        """
        return self.base + self._offset(tensor)

    def view(self, tensor: DTensor) -> Any:
        """A tensor of the plan as an array of its logical shape, padding stepped over.

        Raises:
            MemoryPlanError: As `ptr_at`.
        """
        n, h, w, c = tensor.shape
        padded = self.array(tensor, (n, h, w, tensor.padded_c), tensor.dtype.numpy)
        return padded[..., :c]

    def array(self, tensor: DTensor, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """The beginning of a tensor's slot as an array of any shape that fits.

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
