"""A simulated run against the order that a real one would have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.errors import PlanError
from dtsflow.reader.order import Order, Shuffle, Tail
from dtsflow.reader.simulate import Simulation, lane_blocks
from dtsflow.volume.format.header import BLOCK_BYTES


@st.composite
def orders(draw: st.DrawFn) -> Order:
    counts = draw(st.lists(st.integers(0, 9), min_size=1, max_size=30).filter(any))
    lanes = draw(st.integers(1, 8))
    batch = lanes * draw(st.integers(1, 5))
    tails = list(Tail) if sum(counts) >= batch else [Tail.PAD, Tail.WRAP]
    return Order(
        np.array(counts, np.int64),
        batch,
        lanes,
        seed=draw(st.integers(0, 9)),
        shuffle=draw(st.sampled_from([Shuffle.NONE, Shuffle.BLOCKS])),
        tail=draw(st.sampled_from(tails)),
        window=draw(st.integers(1, 6)),
    )


@given(orders(), st.integers(0, 3))
def test_a_lane_reads_the_blocks_of_its_legs(order: Order, epoch: int) -> None:
    steps, of_epoch = range(order.steps), order.epoch(epoch)
    read = [
        sum(len(leg.blocks) for leg in of_epoch.legs(steps, lane)) for lane in range(order.lanes)
    ]
    assert lane_blocks(order, epoch).tolist() == read


@given(orders(), st.data())
def test_a_rank_delivers_the_valid_rows_of_its_lanes(order: Order, data: st.DataObject) -> None:
    sizes = [size for size in range(1, order.lanes + 1) if order.lanes % size == 0]
    size = data.draw(st.sampled_from(sizes))
    simulation = Simulation(order, size, per_node=2)
    rows = [order.epoch(0).rows(0, order.steps, order.lanes_of(r, size)) for r in range(size)]
    assert simulation.rank_samples.tolist() == [int(own.valid.sum()) for own in rows]


def test_a_node_reads_what_its_ranks_read_and_the_last_may_have_fewer() -> None:
    order = Order(np.full(64, 10, np.int64), 24, 12, seed=1)
    simulation = Simulation(order, 6, per_node=4)
    assert simulation.nodes == 2
    of_ranks = simulation.streamed_bytes
    assert simulation.node_streamed_bytes.tolist() == [of_ranks[:4].sum(), of_ranks[4:].sum()]
    assert simulation.data_bytes == 64 * BLOCK_BYTES


def test_each_border_between_lanes_costs_one_block_at_most() -> None:
    order = Order(np.full(100, 7, np.int64), 16, 16, seed=3)
    read = int(lane_blocks(order).sum())
    assert 100 < read <= 100 + 15


def test_ranks_that_cannot_share_the_lanes_are_refused_with_what_can() -> None:
    order = Order(np.full(9, 50, np.int64), 96, 16, seed=0)
    with pytest.raises(PlanError, match="For 3 ranks use lanes=24"):
        Simulation(order, 3, per_node=8)


@pytest.mark.parametrize("tail", list(Tail))
def test_thousands_of_ranks_and_a_billion_samples_are_arithmetic(tail: Tail) -> None:
    counts = np.full(690_000, 1450, np.int64)
    counts[::7] = 1440
    order = Order(counts, 8192, 4096, seed=0, tail=tail)
    simulation = Simulation(order, 4096, per_node=8)
    assert order.samples > 10**9 - 10**7
    assert simulation.nodes == 512
    samples, read = simulation.rank_samples, simulation.streamed_bytes
    assert samples.max() - samples.min() <= 2
    assert abs(int(samples.sum()) - order.samples) < order.batch_size
    assert simulation.data_bytes <= read.sum() <= simulation.data_bytes + 2 * 4096 * BLOCK_BYTES
    assert simulation.node_streamed_bytes.sum() == read.sum()
