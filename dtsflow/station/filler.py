"""Fill one chunk of rows: find its samples, let the engine write them."""

import time

import numpy as np

from dtsflow.reader.order import Rows
from dtsflow.reader.row_table import RowTable
from dtsflow.reader.samples import Samples
from dtsflow.reader.store import Store
from dtsflow.station.bad_samples import BadSamples, Chunk
from dtsflow.station.batch_operations import BatchOperations
from dtsflow.station.engine import Engine, Places
from dtsflow.station.keeping import KeepingEngine
from dtsflow.station.reusing import Reusing
from dtsflow.station.turns import ZONES
from dtsflow.station.zone import Zone


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
        bad_samples: BadSamples,
        engine: Engine,
        *,
        batch: BatchOperations | None = None,
        reusing: Reusing | None = None,
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
        self, step: int, rows: Rows, zone: Zone, places: Places, reusing: Reusing
    ) -> None:
        """Fill rows, all valid, but decode no more than is not kept."""
        assert isinstance(self._engine, KeepingEngine)
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
