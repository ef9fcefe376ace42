import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.reader.order import Order, Shuffle
from dtsflow.reader.rows import Portions


@given(st.integers(1, 50), st.integers(1, 4), st.integers(1, 6), st.data())
def test_each_row_is_found_in_the_portion_it_was_given_in(
    samples: int, lanes: int, lane_rows: int, data: st.DataObject
) -> None:
    order = Order(np.array([samples]), lanes * lane_rows, lanes, seed=1, shuffle=Shuffle.FULL)
    first = data.draw(st.integers(0, lanes - 1))
    own = range(first, data.draw(st.integers(first + 1, lanes)))
    portions = Portions(order, own, data.draw(st.integers(1, 8)))
    table = portions.table(order.epoch(0))
    seen = []
    for number in range(order.steps * portions.of_batch):
        rows = portions.rows_of(table, number)
        assert 1 <= len(rows) <= portions.chunk_rows
        valid = np.flatnonzero(rows.valid)
        numbers, places = portions.locate(rows.only(valid))
        assert numbers.tolist() == [number] * len(valid)
        assert places.tolist() == valid.tolist()
        seen += rows.ids.tolist()
    assert seen == order.epoch(0).rows(0, order.steps, own).ids.tolist()
