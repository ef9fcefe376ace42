"""The rows of a pass that need not be decoded."""

from dataclasses import dataclass, replace

import numpy as np

from dtsflow.reader.order import Rows
from dtsflow.reader.samples import Ints, Samples
from dtsflow.station.engine import Address, Places
from dtsflow.station.keeping import KeepingEngine
from dtsflow.station.row_store import RowStore
from dtsflow.station.zone import Zone
from dtsflow.volume.data_set import DataSet


@dataclass(frozen=True, slots=True, eq=False)
class Reusing:
    """What a pass reuses; its workers share it.

    Attributes:
        store: The kept rows.
        address: What the draws of the pass are addressed by.
        volumes: The data set.
        reads_all: Whether the reader delivers all rows, kept or not.
    """

    store: RowStore
    address: Address
    volumes: DataSet
    reads_all: bool

    def copy(self, rows: Rows, places: Places, zone: Zone, engine: KeepingEngine) -> Ints:
        """Write those rows, all valid, that the store holds; which ones are left.

        They have all else that a batch shows of them, too.
        """
        numbers = self.store.numbers(rows)
        is_held = self.store.holds(numbers)
        held = np.flatnonzero(is_held)
        self.store.counted(decoded=len(rows) - len(held), reused=len(held))
        if len(held):
            draw_ids = rows.draw_ids(self.volumes.num_samples)
            ids = rows.ids if draw_ids is None else draw_ids
            own = places[held]
            engine.copy(numbers[held], ids[held], self.address, zone, own)
            labels = self.store.labels(numbers[held])
            zone.enter_rows(own, labels, rows.ids[held], self.volumes.columns)
        return np.flatnonzero(~is_held)

    def numbered(self, rows: Rows, samples: Samples) -> Samples:
        """The samples of rows, with the numbers that the store knows them by."""
        return replace(samples, numbers=self.store.numbers(rows))
