"""The rows of an epoch, a page of steps at a time, shared by all workers."""

import threading

from dtsflow.reader.order import EpochOrder, Rows
from dtsflow.reader.selection import Selection

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
        """Where this rank's rows of global batch `step` come from.

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
