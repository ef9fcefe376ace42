import numpy as np

from dtsflow.reader import row_table
from dtsflow.reader.order import Order
from dtsflow.reader.row_table import RowTable


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


def test_a_page_is_bounded() -> None:
    assert row_table.PAGE_ROWS * 8 * 4 < 2 << 20
