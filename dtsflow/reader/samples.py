"""Stored samples in memory, as one struct of arrays per chunk."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
        refused: Numbers, in this chunk, of samples whose whole block is damaged, each
            with the reason. Offset, size and label of such a one mean nothing.
        stands_for: What addresses the draws of these samples, where they replace others
            or come again in a mix; None: the sample_id of each.
        numbers: The number of each sample among the rank's own, -1 if its rows are not
            to be kept; None: those of none are.
    """

    memory: Bytes
    offsets: Ints
    sizes: Ints
    labels: npt.NDArray[np.int32]
    ids: Ints
    refused: Mapping[int, str] = field(default_factory=dict)
    stands_for: Ints | None = None
    numbers: Ints | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def draw_ids(self) -> Ints:
        """What the draws of each sample are addressed by."""
        return self.ids if self.stands_for is None else self.stands_for

    def data(self, number: int) -> memoryview:
        """The stored bytes of sample `number` of this chunk, not copied."""
        start = int(self.offsets[number])
        return self.memory[start : start + int(self.sizes[number])].data

    def only(self, numbers: Ints) -> "Samples":
        """The samples with these numbers alone, numbered anew."""
        refused = {
            place: self.refused[number]
            for place, number in enumerate(numbers.tolist() if self.refused else ())
            if number in self.refused
        }
        stands_for = None if self.stands_for is None else self.stands_for[numbers]
        return Samples(
            self.memory,
            self.offsets[numbers],
            self.sizes[numbers],
            self.labels[numbers],
            self.ids[numbers],
            refused,
            stands_for,
            None if self.numbers is None else self.numbers[numbers],
        )
