"""Stored samples in memory, as one struct of arrays per chunk."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Samples:
    """The stored bytes of some samples, as slices of one memory that the reader owns.

    Attributes:
        memory: All bytes that the reader holds.
        offsets: Where each sample begins in `memory`.
        sizes: Bytes of each sample.
        labels: Label of each sample, int32.
        ids: sample_id of each sample.
    """

    memory: Bytes
    offsets: Ints
    sizes: Ints
    labels: npt.NDArray[np.int32]
    ids: Ints

    def __len__(self) -> int:
        return len(self.ids)

    def data(self, number: int) -> memoryview:
        """The stored bytes of sample `number` of this chunk, not copied."""
        start = int(self.offsets[number])
        return self.memory[start : start + int(self.sizes[number])].data
