import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtsflow.errors import PlanError
from dtsflow.reader.order import Order, Rows, Shuffle, Tail, auto_lanes, window_blocks
from dtsflow.seed.address import Purpose, window_sub
from dtsflow.seed.draws import permutation

GRID = [(26, 6), (10, 3), (34, 16), (7, 3), (3, 4), (1, 4), (1003, 24)]


def order_of(counts: list[int], batch: int, **kwargs: object) -> Order:
    defaults: dict[str, object] = {"lanes": auto_lanes(batch), "seed": 7, "window": 2}
    return Order(np.array(counts, np.int64), batch, **(defaults | kwargs))  # type: ignore[arg-type]  # mixed


def all_rows(order: Order, epoch: int = 0) -> Rows:
    return order.epoch(epoch).rows(0, order.steps, range(order.lanes))


def by_the_book(order: Order, epoch: int) -> list[int]:
    """The sample ids of an epoch, row by row, as section 4 says; -1 where none is."""
    lanes = _lanes(order, epoch)
    q = order.batch_size // order.lanes
    return [
        _sample(order, lanes, lane, step * q + s)
        for step in range(order.steps)
        for lane in range(order.lanes)
        for s in range(q)
    ]


def _lanes(order: Order, epoch: int) -> list[list[int]]:
    where = {"seed": order.seed, "epoch": epoch, "phase": order.phase}
    group = where | {"epoch": epoch - epoch % order.group}
    first = np.concatenate(([0], np.cumsum(order.counts)))
    blocks = [b for b, n in enumerate(order.counts) if n]
    if order.shuffle is Shuffle.BLOCKS:
        turns = permutation(len(blocks), purpose=Purpose.ORDER, **group)
        blocks = [blocks[t] for t in turns]
    joined = [(t, i) for t, b in enumerate(blocks) for i in range(first[b], first[b + 1])]
    if order.shuffle is Shuffle.FULL:
        turns = permutation(len(joined), purpose=Purpose.ORDER, **group)
        joined = [joined[t] for t in turns]
    total, v = len(joined), order.lanes
    lanes = [joined[lane * total // v : (lane + 1) * total // v] for lane in range(v)]
    if order.shuffle is Shuffle.FULL and order.group > 1:  # one window, of all the lane has
        lanes = [[(0, i) for _, i in own] for own in lanes]
    elif order.shuffle not in (Shuffle.WINDOWS, Shuffle.BLOCKS):
        return [[i for _, i in own] for own in lanes]
    return [_windowed(order, own, lane, where) for lane, own in enumerate(lanes)]


def _windowed(
    order: Order, own: list[tuple[int, int]], lane: int, where: dict[str, int]
) -> list[int]:
    held = sorted({t for t, _ in own})
    ids: list[int] = []
    number, size = 0, 1
    while held:
        window, held = held[:size], held[size:]
        part = [i for t, i in own if t in window]
        sub = window_sub(0, lane)
        turns = permutation(len(part), purpose=Purpose.WINDOW, block=number, sub=sub, **where)
        ids += [part[t] for t in turns]
        number, size = number + 1, min(2 * size, order.window)
    return ids


def _sample(order: Order, lanes: list[list[int]], lane: int, number: int) -> int:
    if number < len(lanes[lane]):
        return lanes[lane][number]
    if order.tail is not Tail.WRAP:
        return -1
    while not lanes[lane]:
        lane = (lane + 1) % len(lanes)
    return lanes[lane][number % len(lanes[lane])]


@st.composite
def orders(draw: st.DrawFn) -> Order:
    lanes = draw(st.integers(1, 6))
    return order_of(
        draw(st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any)),
        lanes * draw(st.integers(1, 4)),
        lanes=lanes,
        window=draw(st.integers(1, 5)),
        shuffle=draw(st.sampled_from(Shuffle)),
        tail=draw(st.sampled_from([Tail.PAD, Tail.WRAP])),
        group=draw(st.integers(1, 3)),
    )


@settings(max_examples=150)
@given(order=orders(), epoch=st.integers(0, 7))
def test_the_order_is_the_written_definition(order: Order, epoch: int) -> None:
    assert all_rows(order, epoch).ids.tolist() == by_the_book(order, epoch)


@given(
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any),
    shuffle=st.sampled_from(Shuffle),
    data=st.data(),
)
def test_any_part_of_an_epoch_can_be_asked_for_alone(
    counts: list[int], shuffle: Shuffle, data: st.DataObject
) -> None:
    order = order_of(counts, 12, lanes=6, shuffle=shuffle)
    whole = all_rows(order).ids.reshape(order.steps, 6, 2)
    step = data.draw(st.integers(0, order.steps - 1))
    lane = data.draw(st.integers(0, 5))
    part = order.epoch(0).rows(step, 1, range(lane, lane + 1))
    assert part.ids.tolist() == whole[step, lane].tolist()


@pytest.mark.parametrize("tail", Tail)
@pytest.mark.parametrize(("samples", "batch"), GRID)
@pytest.mark.parametrize("shuffle", Shuffle)
def test_every_sample_is_delivered_once(
    samples: int, batch: int, tail: Tail, shuffle: Shuffle
) -> None:
    counts = [samples // 3, 0, samples - samples // 3]
    if tail is Tail.DROP and samples < batch:
        with pytest.raises(PlanError, match="leaves no batch"):
            order_of(counts, batch, tail=tail, shuffle=shuffle)
        return
    order = order_of(counts, batch, tail=tail, shuffle=shuffle)
    rows = all_rows(order)
    delivered = rows.ids[rows.valid].tolist()
    assert len(rows) == order.steps * batch
    if tail is Tail.DROP:
        assert order.steps == samples // batch
        assert rows.valid.all()
        assert len(set(delivered)) == len(delivered)
    elif tail is Tail.PAD:
        assert order.steps == -(-samples // batch)
        assert sorted(delivered) == list(range(samples))
        assert (rows.ids[~rows.valid] == -1).all()
    else:
        assert order.steps == -(-samples // batch)
        assert rows.valid.all()
        assert set(delivered) == set(range(samples))


def test_rows_say_where_their_sample_is_stored() -> None:
    order = order_of([4, 0, 5, 2], 4)
    rows = all_rows(order)
    present = rows.valid
    assert (order.first_ids[rows.blocks] + rows.places == rows.ids)[present].all()
    assert (rows.places < order.counts[rows.blocks])[present].all()


def test_a_rank_gets_its_rows_of_the_global_batch() -> None:
    order = order_of([30, 40, 25], 24, lanes=12)
    whole = all_rows(order).ids.reshape(order.steps, 24)
    for size in (1, 2, 3, 4, 6, 12):
        parts = [
            order.epoch(0).rows(0, order.steps, order.lanes_of(rank, size)).ids
            for rank in range(size)
        ]
        joined = np.concatenate([part.reshape(order.steps, -1) for part in parts], axis=1)
        assert joined.tolist() == whole.tolist()


def test_epochs_seeds_and_phases_differ_and_repeat() -> None:
    order = order_of([50, 50], 10)
    assert all_rows(order, 0).ids.tolist() == all_rows(order, 0).ids.tolist()
    assert all_rows(order, 0).ids.tolist() != all_rows(order, 1).ids.tolist()
    other = [order_of([50, 50], 10, seed=8), order_of([50, 50], 10, phase=1)]
    assert all(all_rows(o).ids.tolist() != all_rows(order).ids.tolist() for o in other)


def test_without_shuffle_and_with_one_lane_the_order_is_the_volume_order() -> None:
    order = order_of([5, 0, 6], 4, lanes=1, shuffle=Shuffle.NONE)
    assert all_rows(order).ids.tolist() == [*range(11), -1]


def test_missing_rows_end_each_lane_and_not_the_batch() -> None:
    rows = all_rows(order_of([6], 8, lanes=4, shuffle=Shuffle.NONE))
    assert rows.valid.tolist() == [True, False, True, True, True, False, True, True]


@pytest.mark.parametrize("shuffle", Shuffle)
@pytest.mark.parametrize("tail", [Tail.PAD, Tail.WRAP])
@pytest.mark.parametrize("counts", [[9, 3, 0, 14, 2, 2, 8, 1], [1], [2, 1]])
def test_blocks_are_delivered_before_any_later_row_needs_another(
    shuffle: Shuffle, tail: Tail, counts: list[int]
) -> None:
    order = order_of(counts, 12, lanes=3, shuffle=shuffle, tail=tail, window=4)
    for lanes in (range(3), range(1, 2)):
        delivery = order.epoch(0).delivery(lanes).tolist()
        rows = order.epoch(0).rows(0, order.steps, lanes)
        assert len(set(delivery)) == len(delivery)
        assert set(rows.blocks[rows.valid].tolist()) <= set(delivery)


def test_the_first_batch_needs_only_the_first_block_of_each_lane() -> None:
    order = order_of([20] * 40, 16, lanes=4, window=4)
    delivery = order.epoch(0).delivery(range(4)).tolist()
    first = order.epoch(0).rows(0, 1, range(4))
    assert set(first.blocks.tolist()) <= set(delivery[:4])


def test_windows_grow_from_one_block() -> None:
    order = order_of([10] * 12, 1, lanes=1, window=4)
    blocks = all_rows(order).blocks
    seen: list[int] = list(dict.fromkeys(blocks.tolist()))
    ends = [max(int(np.flatnonzero(blocks == b)[-1]) for b in seen[:k]) + 1 for k in (1, 3, 7, 11)]
    assert ends == [10, 30, 70, 110]


def test_lanes_must_divide_the_batch() -> None:
    with pytest.raises(PlanError, match=r"lanes=5 does not divide batch_size=12.*1, 2, 3, 4, 6"):
        order_of([20], 12, lanes=5)


def test_ranks_must_divide_the_lanes_and_the_message_says_what_would() -> None:
    order = order_of([200], 96, lanes=16)
    with pytest.raises(PlanError, match=r"1, 2, 4, 8, 16\. For 3 ranks use lanes=24"):
        order.lanes_of(0, 3)
    with pytest.raises(PlanError, match="batch_size=96 is no multiple of 7"):
        order.lanes_of(0, 7)


def test_no_samples_are_refused() -> None:
    with pytest.raises(PlanError, match="no samples"):
        order_of([0, 0], 4)


@pytest.mark.parametrize(("batch", "lanes"), [(256, 16), (96, 16), (7, 7), (34, 2), (17, 1)])
def test_auto_lanes_come_from_the_batch_alone(batch: int, lanes: int) -> None:
    assert auto_lanes(batch) == lanes


def test_a_window_is_shared_by_all_lanes() -> None:
    assert window_blocks(512 << 20, 16) == 2
    assert window_blocks(1, 16) == 1


def test_steps_far_into_an_epoch_cost_no_more_than_the_first() -> None:
    order = order_of([1000] * 2000, 64, lanes=16)
    epoch = order.epoch(0)
    late = epoch.rows(order.steps - 1, 1, range(16))
    assert late.valid.all()
    assert all(len(run.cuts) <= 200 for lane in epoch._lanes.values() for run in lane.runs)
