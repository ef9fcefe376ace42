"""Mixing the rows of a batch once all of them are written."""

import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dtsflow.errors import VolumeError
from dtsflow.po.chain import BatchOperation
from dtsflow.po.mixup import mix_labels, mixed_labels, one_hot, pair
from dtsflow.po.operation import Params, Row
from dtsflow.seed.draws import batch_draws
from dtsflow.station.engine import Address
from dtsflow.station.zone import Zone
from dtsflow.tensor.dtype import DType

SOFT_LABELS: Final = "soft_labels"
"""The field of a batch that says how much of each class is in a row."""

ELEMENT_BYTES: Final = 24
"""Bytes of temporaries for each element of a lane that is mixed without the core:
float32 copies."""

Rows = npt.NDArray[Any]


class BatchOperations:
    """Runs operations on the whole batches of one pass; its workers share it.

    Args:
        operations: What they are, one after another.
        address: What the draws of the pass are addressed by.
        lanes: The lanes of this rank, whose rows stand one lane after another.
        dtype: Type of the pixels.
        chunks: Chunks of a batch.
        core: The compiled core, which mixes in place; None: NumPy mixes, to the same
            bits.
    """

    def __init__(  # a pass's parts, joined in one place only
        self,
        operations: Sequence[BatchOperation],
        address: Address,
        lanes: range,
        dtype: DType,
        chunks: int,
        core: ModuleType | None = None,
    ) -> None:
        self._core = core
        self._operations = tuple(operations)
        self._address = address
        self._lanes = np.arange(lanes.start, lanes.stop)
        self._dtype = dtype
        self._chunks = chunks
        self._written: dict[int, int] = {}
        self._lock = threading.Lock()

    def written(self, step: int, zone: Zone) -> None:
        """Say that a chunk of batch `step` is written; after the last one, mix it.

        The caller must not say before that it has finished the chunk.

        Raises:
            VolumeError: A label is beyond the classes of the data set.
        """
        with self._lock:
            count = self._written[step] = self._written.get(step, 0) + 1
            if count < self._chunks:
                return
            del self._written[step]
        self._run(step, zone)

    def _run(self, step: int, zone: Zone) -> None:
        chosen = [self._choose(step, position, zone) for position in range(len(self._operations))]
        self._check(zone)
        soft = zone.fields[SOFT_LABELS].array.view(np.float32)
        soft[...] = one_hot(zone.labels, soft.shape[-1])
        rows = len(zone.labels) // len(self._lanes)
        for lane in range(len(self._lanes)):
            own = slice(lane * rows, (lane + 1) * rows)
            for operation, params in zip(self._operations, chosen, strict=True):
                self._mix(operation, params[lane], zone.padded[own], soft[own], zone.valid[own])

    def _mix(  # what an operation takes, and the labels
        self,
        operation: BatchOperation,
        params: Row,
        pixels: Rows,
        soft: npt.NDArray[np.float32],
        valid: npt.NDArray[np.bool_],
    ) -> None:
        """Mix the rows of one lane in place."""
        partners = pair(valid, int(params["shift"]))
        if self._core is None:
            pixels[...] = operation.apply(pixels, params, partners, dtype=self._dtype)
            soft[...] = mixed_labels(soft, params, partners)
            return
        operation.mix(self._core, pixels, params, partners, dtype=self._dtype)
        mix_labels(self._core, soft, params, partners)

    def _check(self, zone: Zone) -> None:
        classes, largest = zone.fields[SOFT_LABELS].array.shape[-1], int(zone.labels.max())
        if largest >= classes:
            raise VolumeError(
                f"a sample has label {largest}, and the data set says that it has {classes} "
                "classes. `dtsflow verify` says which file is wrong."
            )

    def _choose(self, step: int, position: int, zone: Zone) -> Params:
        """Return the parameters of one operation, a row for each lane."""
        operation, address = self._operations[position], self._address
        draws = batch_draws(
            seed=address.seed,
            step=step,
            epoch=address.epoch,
            phase=address.phase,
            lanes=self._lanes,
            words=operation.words,
            position=position,
        )
        return operation.draw(draws, *zone.images.shape[1:3])
