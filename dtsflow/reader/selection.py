"""Chosen samples of a data set, and where they lie in it."""

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Self

import numpy as np

from dtsflow.reader.order import Ints, Rows
from dtsflow.volume.data_set import DataSet


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The samples that a run is about, where those are not all.

    Its order knows only how many of each block are chosen, and numbers them: what it
    says is told in places and ids of the data set by `located`.

    Attributes:
        ids: The chosen sample_ids, ascending.
        counts: How many samples of each block are chosen.
        starts: Where those of each block begin in `ids`.
        first_ids: The sample_id of each block's first sample, chosen or not.
    """

    ids: Ints
    counts: Ints
    starts: Ints
    first_ids: Ints

    @classmethod
    def of(cls, volumes: DataSet, ids: Ints) -> Self:
        """The selection of these sample_ids, ascending and each once."""
        starts = np.searchsorted(ids, volumes.first_ids).astype(np.int64)
        ends = np.searchsorted(ids, volumes.first_ids + volumes.counts).astype(np.int64)
        return cls(ids, ends - starts, starts, volumes.first_ids)

    def __len__(self) -> int:
        return len(self.ids)

    def located(self, rows: Rows) -> Rows:
        """Rows that count chosen samples alone, as rows of the data set."""
        ids = np.where(rows.valid, self.ids[rows.ids], -1)
        places = np.where(rows.valid, ids - self.first_ids[rows.blocks], 0)
        return dataclasses.replace(rows, ids=ids, places=places)

    def places(self, block: int) -> Ints:
        """The chosen samples of a block, by their index in it, ascending."""
        start = int(self.starts[block])
        own: Ints = self.ids[start : start + int(self.counts[block])]
        return own - int(self.first_ids[block])

    def digest(self) -> str:
        """SHA-256 over the chosen ids, however they came to be chosen."""
        return hashlib.sha256(np.ascontiguousarray(self.ids, "<i8").tobytes()).hexdigest()
