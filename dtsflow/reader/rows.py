"""The rows of an epoch, a page of steps at a time, shared by all workers.

Workers ask for a rank's rows in portions. Chosen samples of a data set are located in
it, and the samples of a rank are numbered so that epochs of one group agree on each.
"""

import dataclasses
import hashlib
import threading
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Self

import numpy as np

from dtsflow.reader.order import EpochOrder, Ints, Order, Rows
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
        """Return the selection of these sample_ids, ascending and each once."""
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
        """Return the chosen samples of a block, by their index in it, ascending."""
        start = int(self.starts[block])
        own: Ints = self.ids[start : start + int(self.counts[block])]
        return own - int(self.first_ids[block])

    def digest(self) -> str:
        """SHA-256 over the chosen ids, however they came to be chosen."""
        return hashlib.sha256(np.ascontiguousarray(self.ids, "<i8").tobytes()).hexdigest()


PAGE_ROWS = 1 << 15  # one NumPy pass costs about a millisecond; a page makes it rare


class RowTable:
    """Rows of one rank for any step of one epoch; safe to ask from several threads.

    With a `selection` the order is one of its samples; the rows are the data set's.
    """

    def __init__(
        self,
        epoch_order: EpochOrder,
        lanes: range,
        rows_per_step: int,
        selection: Selection | None = None,
    ) -> None:
        self._order = epoch_order
        self._lanes = lanes
        self._selection = selection
        self._rows_per_step = rows_per_step
        self._page_steps = max(1, min(epoch_order.steps, PAGE_ROWS // rows_per_step))
        self._pages: dict[int, Rows] = {}
        self._lock = threading.Lock()

    def rows(self, step: int, first: int = 0, count: int | None = None) -> Rows:
        """Return where this rank's rows of global batch `step` come from.

        Only `count` of them from `first` on, or as many as there are.
        """
        page, inside = divmod(step, self._page_steps)
        with self._lock:
            if page not in self._pages:
                # Steps are asked for in order, two batches at most in the making.
                self._pages = {p: rows for p, rows in self._pages.items() if p == page - 1}
                self._pages[page] = self._page(page * self._page_steps)
            rows = self._pages[page]
        start = inside * self._rows_per_step
        end = self._rows_per_step if count is None else min(first + count, self._rows_per_step)
        return rows[start + first : start + end]

    def _page(self, first_step: int) -> Rows:
        rows = self._order.rows(first_step, self._page_steps, self._lanes)
        return rows if self._selection is None else self._selection.located(rows)


@dataclass(frozen=True, slots=True, eq=False)
class Portions:
    """The division of a rank's batch: portions of `chunk_rows` rows, and the rest.

    Attributes:
        order: The order of all ranks.
        lanes: The lanes of the rank.
        chunk_rows: Rows of a portion, at most.
        selection: The samples that are read; None: all.
    """

    order: Order
    lanes: range
    chunk_rows: int
    selection: Selection | None = None

    @property
    def rows(self) -> int:
        """Rows of a batch."""
        return len(self.lanes) * self.order.lane_rows

    @property
    def may_repeat(self) -> bool:
        """Tell whether one batch may repeat a sample, as a tail that wraps does."""
        return self.order.samples < self.order.batch_size

    @property
    def of_batch(self) -> int:
        """Portions of a batch."""
        return -(-self.rows // self.chunk_rows)

    def table(self, epoch: EpochOrder) -> RowTable:
        """Return the rows of an epoch."""
        return RowTable(epoch, self.lanes, self.rows, self.selection)

    def rows_of(self, table: RowTable, portion: int) -> Rows:
        """Return the rows of a portion, counted from the epoch's beginning."""
        step, inside = divmod(portion, self.of_batch)
        first = inside * self.chunk_rows
        return table.rows(step, first, self.chunk_rows)

    def locate(self, rows: Rows) -> tuple[Ints, Ints]:
        """Return the portion of each row, and the row's number in it."""
        lane_rows = self.order.lane_rows
        step, number = np.divmod(rows.numbers, lane_rows)
        row = (rows.lanes - self.lanes.start) * lane_rows + number
        inside, place = np.divmod(row, self.chunk_rows)
        return step * self.of_batch + inside, place


class OwnPlaces:
    """Numbers the samples that the lanes of a rank own, from 0.

    Samples are numbered by their places in the C of their sources, which epochs of a
    group share. One that wraps has its number again; one that a mix delivers again has
    another, as it has other draws.

    Args:
        order: The order of all ranks.
        lanes: The lanes of the rank, which are neighbours.
    """

    def __init__(self, order: Order, lanes: range) -> None:
        self._order = order
        self._lanes = lanes

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def of(self, rows: Rows) -> Ints:
        """Return the number of each row's sample.

        It is -1 for a sample that is not the rank's own.

        That is a missing row, or one that an empty lane takes from another rank's.
        """
        positions = rows.positions
        assert positions is not None
        found = np.full(len(rows), -1, np.int64)
        for source, (run, first) in enumerate(zip(self._runs, self._firsts, strict=True)):
            own = (positions >= run.start) & (positions < run.stop)
            if rows.sources is not None:
                own &= rows.sources == source
            found[own] = positions[own] - run.start + first
        return found

    @cached_property
    def _runs(self) -> list[range]:
        """Return what the lanes own of the C of each source."""
        merging = self._order.merging
        ends = (
            self._order.lane_bounds(self._lanes[0])[0],
            self._order.lane_bounds(self._lanes[-1])[1],
        )
        return [
            range(first, last)
            for first, last in zip(*(merging.before(end) for end in ends), strict=True)
        ]

    @cached_property
    def _firsts(self) -> list[int]:
        return list(accumulate((len(run) for run in self._runs[:-1]), initial=0))
