"""The rows of a rank in portions, as workers ask for them."""

from dataclasses import dataclass

import numpy as np

from dtsflow.reader.order import EpochOrder, Ints, Order, Rows
from dtsflow.reader.row_table import RowTable
from dtsflow.reader.selection import Selection


@dataclass(frozen=True, slots=True, eq=False)
class Portions:
    """How each batch of a rank is divided: `chunk_rows` rows, and what is left.

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
        """Whether one batch may have a sample several times, as a tail that wraps."""
        return self.order.samples < self.order.batch_size

    @property
    def of_batch(self) -> int:
        """Portions of a batch."""
        return -(-self.rows // self.chunk_rows)

    def table(self, epoch: EpochOrder) -> RowTable:
        """The rows of an epoch."""
        return RowTable(epoch, self.lanes, self.rows, self.selection)

    def rows_of(self, table: RowTable, portion: int) -> Rows:
        """The rows of a portion, counted from the epoch's beginning."""
        step, inside = divmod(portion, self.of_batch)
        first = inside * self.chunk_rows
        return table.rows(step, first, self.chunk_rows)

    def locate(self, rows: Rows) -> tuple[Ints, Ints]:
        """The portion of each row, and the row's number in it."""
        lane_rows = self.order.lane_rows
        step, number = np.divmod(rows.numbers, lane_rows)
        row = (rows.lanes - self.lanes.start) * lane_rows + number
        inside, place = np.divmod(row, self.chunk_rows)
        return step * self.of_batch + inside, place
