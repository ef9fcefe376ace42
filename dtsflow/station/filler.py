"""Fill one chunk of rows: find its samples, let the engine write them.

Rows of a pass that need not be decoded come from the row cache.
"""

import time
from dataclasses import dataclass, replace

import numpy as np

from dtsflow.reader.order import Rows
from dtsflow.reader.rows import RowTable
from dtsflow.reader.store import Ints, Samples, Store
from dtsflow.station.bad_samples import Chunk, RowWriter
from dtsflow.station.batch_operations import BatchOperations
from dtsflow.station.caching_engine import CachingEngine
from dtsflow.station.double_buffer import ZONES
from dtsflow.station.engine import Address, Engine, Places
from dtsflow.station.row_cache import RowCache
from dtsflow.station.zone import Zone
from dtsflow.volume.data_set import DataSet


@dataclass(frozen=True, slots=True, eq=False)
class CachedPass:
    """The parts that a pass reuses; its workers share them.

    Attributes:
        store: The kept rows.
        address: What the draws of the pass are addressed by.
        volumes: The data set.
        reads_all: Whether the reader delivers all rows, kept or not.
    """

    store: RowCache
    address: Address
    volumes: DataSet
    reads_all: bool

    def copy(self, rows: Rows, places: Places, zone: Zone, engine: CachingEngine) -> Ints:
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
        """Return the samples of rows, with the numbers that the store knows them by."""
        return replace(samples, numbers=self.store.numbers(rows))


class Filler:
    """Fills chunks of `chunk_rows` consecutive rows; one a worker and pass.

    `by_source` says that the store gives rows of one source of a mix at a time.
    """

    def __init__(  # noqa: PLR0913  # a worker's parts, joined in one place only
        self,
        store: Store,
        table: RowTable,
        zones: tuple[Zone, Zone],
        chunk_rows: int,
        bad_samples: RowWriter,
        engine: Engine,
        *,
        batch: BatchOperations | None = None,
        reusing: CachedPass | None = None,
        by_source: bool = False,
    ) -> None:
        self._store = store
        self._table = table
        self._zones = zones
        self._chunk_rows = chunk_rows
        self._bad_samples = bad_samples
        self._engine = engine
        self._batch = batch
        self._reusing = reusing
        self._by_source = by_source

    def __call__(self, step: int, chunk: int) -> None:
        """Write the rows of chunk `chunk` of global batch `step`.

        The last of a batch mixes its rows, if that is to be done.

        Raises:
            DecodeError: A sample is bad and must not be; names block, label and id.
            VolumeError: A block cannot be read, or is damaged and must not be.
        """
        zone = self._zones[step % ZONES]
        self._fill(step, chunk, zone)
        if self._batch is not None:
            began = time.perf_counter()
            self._batch.written(step, zone)
            self._engine.times.po += time.perf_counter() - began

    def _fill(self, step: int, chunk: int, zone: Zone) -> None:
        first = chunk * self._chunk_rows
        rows = self._table.rows(step, first, self._chunk_rows)
        places = np.arange(first, first + len(rows))
        if not rows.valid.all():
            zone.clear_rows(slice(first, first + len(rows)))
            present = np.flatnonzero(rows.valid)
            rows, places = rows.only(present), places[present]
        if not self._by_source or rows.sources is None:
            self._fill_rows(step, rows, places, zone)
            return
        for source in np.unique(rows.sources).tolist():
            own = np.flatnonzero(rows.sources == source)
            self._fill_rows(step, rows.only(own), places[own], zone)

    def _fill_rows(self, step: int, rows: Rows, places: Places, zone: Zone) -> None:
        """Write valid rows of one `gather`."""
        if not len(rows):
            return
        if self._reusing is None:
            samples = self._gather(rows)
            self._bad_samples.fill(step, Chunk(rows, samples, zone, places), self._engine)
            self._store.release(rows)
        else:
            self._fill_missing(step, rows, zone, places, self._reusing)

    def _fill_missing(
        self, step: int, rows: Rows, zone: Zone, places: Places, reusing: CachedPass
    ) -> None:
        """Fill rows, all valid, but decode no more than is not kept."""
        assert isinstance(self._engine, CachingEngine)
        missing = reusing.copy(rows, places, zone, self._engine)
        left, places = rows.only(missing), places[missing]
        read = rows if reusing.reads_all else left
        if not len(read):
            return
        samples = self._gather(read)
        if len(left):
            samples = samples.only(missing) if reusing.reads_all else samples
            whole = Chunk(left, reusing.numbered(left, samples), zone, places)
            self._bad_samples.fill(step, whole, self._engine)
        self._store.release(read)

    def _gather(self, rows: Rows) -> Samples:
        began = time.perf_counter()
        samples = self._store.gather(rows)
        self._engine.times.read += time.perf_counter() - began
        return samples
