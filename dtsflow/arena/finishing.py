"""The last step of preprocessing, done by the device."""

from typing import Final

import numpy as np

from dtsflow.arena.cuda import Stream
from dtsflow.arena.device_memory import DeviceMemory
from dtsflow.arena.form import Form
from dtsflow.arena.staging import Staging, staged_shape
from dtsflow.native.steps import Finish
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtype import DType

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
