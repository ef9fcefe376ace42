import numpy as np
import pytest

from dtsflow.reader.order import EpochOrder, Order, Rows
from dtsflow.reader.rows import PAGE_ROWS, RowTable


def test_pages_give_the_same_rows_as_the_order() -> None:
    order = Order(np.array([40, 30, 33], np.int64), 8, 4, seed=3)
    whole = order.epoch(2).rows(0, order.steps, range(4))
    for page_rows in (1, 24, 1 << 15):
        table = RowTable(order.epoch(2), range(4), 8)
        table._page_steps = max(1, page_rows // 8)
        for step in [*range(order.steps), 0, order.steps - 1]:
            rows = table.rows(step)
            assert rows.ids.tolist() == whole.ids[step * 8 : step * 8 + 8].tolist()
            assert rows.valid.tolist() == whole.valid[step * 8 : step * 8 + 8].tolist()


@pytest.mark.parametrize("rows_per_step", [8, 3 * PAGE_ROWS // 4, 2 * PAGE_ROWS])
def test_two_pages_at_most_are_kept_each_bounded(rows_per_step: int) -> None:
    order = Order(np.array([20 * PAGE_ROWS], np.int64), rows_per_step, 4, seed=3)
    table = RowTable(order.epoch(0), range(4), rows_per_step)
    steps = range(order.steps) if rows_per_step > 8 else range(0, order.steps, 1000)
    for step in steps:
        assert len(table.rows(step)) == rows_per_step
        assert len(table._pages) <= 2
        assert max(map(len, table._pages.values())) <= max(PAGE_ROWS, rows_per_step)


def test_a_page_is_made_once_for_all_its_steps_and_kept_for_a_slower_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []
    rows = EpochOrder.rows

    def counting(self: EpochOrder, step: int, steps: int, lanes: range) -> Rows:
        made.append(step)
        return rows(self, step, steps, lanes)

    monkeypatch.setattr(EpochOrder, "rows", counting)
    table = RowTable(Order(np.array([90], np.int64), 8, 4, seed=3).epoch(0), range(4), 8)
    table._page_steps = 4
    for step in (0, 3, 1, 4, 3, 5, 2, 8):
        table.rows(step)
    assert made == [0, 4, 8]
