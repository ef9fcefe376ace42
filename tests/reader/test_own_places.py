"""The numbers that samples of a rank have, the same in all epochs of a group."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.reader.interleave import MixSpec
from dtsflow.reader.order import Order, Shuffle, Tail
from dtsflow.reader.rows import OwnPlaces


@st.composite
def orders(draw: st.DrawFn) -> Order:
    lanes = draw(st.sampled_from([1, 2, 3, 6]))
    counts = draw(st.lists(st.integers(1, 9), min_size=2, max_size=9))
    values: dict[str, Any] = {}
    if draw(st.booleans()):
        cut = draw(st.integers(1, len(counts) - 1))
        weights = draw(st.sampled_from([(), (300, 700)]))
        values["mixing"] = MixSpec(("a", "b"), (cut, len(counts) - cut), weights, None)
    return Order(
        np.array(counts, np.int64),
        lanes * draw(st.integers(1, 4)),
        lanes,
        seed=draw(st.integers(0, 5)),
        shuffle=draw(st.sampled_from(Shuffle)),
        tail=draw(st.sampled_from([Tail.PAD, Tail.WRAP])),
        window=draw(st.integers(1, 3)),
        group=3,
        **values,
    )


@given(orders(), st.data())
def test_a_number_is_one_sample_in_all_epochs_of_a_group(order: Order, data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([n for n in (1, 2, 3, 6) if order.lanes % n == 0]))
    stored = int(order.counts.sum())
    numbered = 0
    for rank in range(size):
        lanes = order.lanes_of(rank, size)
        places = OwnPlaces(order, lanes)
        numbered += len(places)
        samples: dict[int, int] = {}
        for epoch in (3, 4, 5):
            rows = order.epoch(epoch).rows(0, order.steps, lanes)
            numbers = places.of(rows)
            assert (numbers[~rows.valid] == -1).all()
            assert numbers.max(initial=-1) < len(places)
            ids = rows.draw_ids(stored)
            addressed = (rows.ids if ids is None else ids)[numbers >= 0]
            for number, sample in zip(numbers[numbers >= 0], addressed, strict=True):
                assert samples.setdefault(int(number), int(sample)) == sample
        assert len(set(samples.values())) == len(samples) == len(places)
    assert numbered == order.samples


def test_a_row_that_an_empty_lane_takes_elsewhere_has_no_number() -> None:
    order = Order(np.array([2], np.int64), 4, 4, seed=0, tail=Tail.WRAP)
    rows = order.epoch(0).rows(0, 1, range(2))
    found = [OwnPlaces(order, range(lane, lane + 1)).of(rows[lane : lane + 1]) for lane in (0, 1)]
    assert rows.valid.all()
    assert [numbers.tolist() for numbers in found] == [[-1], [0]]
