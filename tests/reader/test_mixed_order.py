"""The order of a mix against design.md section 4, spelled out sample by sample."""

from collections import Counter
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtsflow.errors import PlanError
from dtsflow.reader.interleave import MixSpec
from dtsflow.reader.order import Order, Rows, Shuffle, Tail, window_blocks
from dtsflow.reader.streaming import slot_blocks, streaming_bytes
from dtsflow.seed.address import Purpose, window_sub
from dtsflow.seed.draws import permutation
from dtsflow.volume.format.header import BLOCK_BYTES


class Sample(NamedTuple):
    """One sample as the book has it; a turn is a block's place in C of its source."""

    source: int
    turn: int
    id: int
    repeat: int


def mix_of(
    counts: list[list[int]],
    batch: int,
    lanes: int,
    weights: tuple[int, ...] = (),
    samples: int | None = None,
    **more: object,
) -> Order:
    names = tuple("abcdefgh"[: len(counts)])
    mixing = MixSpec(names, tuple(map(len, counts)), weights, samples)
    joined = np.array([n for own in counts for n in own], np.int64)
    return Order(joined, batch, lanes, seed=5, mixing=mixing, **more)  # type: ignore[arg-type]  # the tests' own words


def weights_of(draw: st.DrawFn, sources: int) -> tuple[int, ...]:
    cuts = draw(
        st.lists(st.integers(1, 999), min_size=sources - 1, max_size=sources - 1, unique=True)
    )
    return tuple(np.diff([0, *sorted(cuts), 1000]).tolist())


@st.composite
def orders(draw: st.DrawFn, *shuffles: Shuffle) -> Order:
    own = st.lists(st.integers(0, 6), min_size=1, max_size=7)
    counts = draw(st.lists(own, min_size=1, max_size=3).filter(lambda c: any(map(any, c))))
    is_weighted = draw(st.booleans()) and all(map(any, counts))
    lanes, q = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    samples = draw(st.none() | st.integers(1, 150)) if is_weighted else None
    number = samples or sum(map(sum, counts))
    tails = [Tail.PAD, Tail.WRAP, *([Tail.DROP] if number >= lanes * q else [])]
    return mix_of(
        counts,
        lanes * q,
        lanes,
        weights_of(draw, len(counts)) if is_weighted else (),
        samples,
        window=draw(st.integers(1, 4)),
        shuffle=draw(st.sampled_from(shuffles or list(Shuffle))),
        tail=draw(st.sampled_from(tails)),
        group=draw(st.integers(1, 3)),
    )


def by_the_book(order: Order, epoch: int) -> list[list[Sample]]:
    """The samples of each lane, in the order that it delivers them."""
    merged = _merged(order, _sources(order, epoch))
    total, v = len(merged), order.lanes
    lanes = [merged[lane * total // v : (lane + 1) * total // v] for lane in range(v)]
    if order.shuffle is Shuffle.FULL and order.group > 1:  # one window, of all the lane has
        lanes = [[sample._replace(turn=0) for sample in own] for own in lanes]
    elif order.shuffle not in (Shuffle.WINDOWS, Shuffle.BLOCKS):
        return lanes
    return [_windowed(order, epoch, lane, own) for lane, own in enumerate(lanes)]


def _sources(order: Order, epoch: int) -> list[list[Sample]]:
    """Each source's C, once."""
    assert order.mixing is not None
    found: list[list[Sample]] = []
    first_block, first_id = 0, 0
    for source, blocks in enumerate(order.mixing.blocks):
        counts = order.counts[first_block : first_block + blocks].tolist()
        found.append(_joined(order, epoch, source, counts, first_id))
        first_block, first_id = first_block + blocks, first_id + sum(counts)
    return found


def _joined(
    order: Order, epoch: int, source: int, counts: list[int], first_id: int
) -> list[Sample]:
    group = epoch - epoch % order.group
    where = {"seed": order.seed, "epoch": group, "purpose": Purpose.ORDER, "sub": source}
    starts = np.cumsum([first_id, *counts]).tolist()
    ids = [list(range(start, start + n)) for start, n in zip(starts, counts, strict=False)]
    filled = [own for own in ids if own]
    if order.shuffle is Shuffle.BLOCKS:
        filled = [filled[t] for t in permutation(len(filled), **where)]  # type: ignore[arg-type]  # mixed values
    joined = [Sample(source, turn, i, 0) for turn, own in enumerate(filled) for i in own]
    if order.shuffle is Shuffle.FULL:
        joined = [joined[t] for t in permutation(len(joined), **where)]  # type: ignore[arg-type]  # mixed values
    return joined


def _merged(order: Order, sources: list[list[Sample]]) -> list[Sample]:
    assert order.mixing is not None
    weights = order.mixing.weights
    if not weights:
        keyed = [
            (Fraction(2 * j + 1, 2 * len(own)), source, sample)
            for source, own in enumerate(sources)
            for j, sample in enumerate(own)
        ]
        return [sample for _, _, sample in sorted(keyed, key=lambda one: one[:2])]
    number = order.mixing.samples or sum(map(len, sources))
    found: list[Sample] = []
    taken, has = [0] * len(sources), [0] * len(sources)
    for place in range(number):
        if place % 1000 == 0:
            has = [0] * len(sources)
        due = [Fraction(weight * (place % 1000 + 1), 1000) for weight in weights]
        behind = [share - n for share, n in zip(due, has, strict=True)]
        source = behind.index(max(behind))
        repeat, j = divmod(taken[source], len(sources[source]))
        turns = len({sample.turn for sample in sources[source]})
        sample = sources[source][j]
        found.append(sample._replace(repeat=repeat, turn=sample.turn + repeat * turns))
        has[source] += 1
        taken[source] += 1
    return found


def _windowed(order: Order, epoch: int, lane: int, own: list[Sample]) -> list[Sample]:
    """The lane with each window permuted, among the places that its samples have."""
    found = list(own)
    for source in {sample.source for sample in own}:
        places = [place for place, sample in enumerate(own) if sample.source == source]
        held = sorted({own[place].turn for place in places})
        number, size = 0, 1
        while held:
            window, held = held[:size], held[size:]
            part = [place for place in places if own[place].turn in window]
            turns = permutation(
                len(part),
                seed=order.seed,
                epoch=epoch,
                purpose=Purpose.WINDOW,
                block=number,
                sub=window_sub(source, lane),
            )
            for place, turn in zip(part, turns.tolist(), strict=True):
                found[place] = own[part[turn]]
            number, size = number + 1, min(2 * size, order.window)
    return found


def expected(order: Order, epoch: int) -> list[Sample | None]:
    """The sample of each row of the epoch; None where there is none."""
    lanes = by_the_book(order, epoch)
    q = order.batch_size // order.lanes
    return [
        _sample(order, lanes, lane, step * q + s)
        for step in range(order.steps)
        for lane in range(order.lanes)
        for s in range(q)
    ]


def _sample(order: Order, lanes: list[list[Sample]], lane: int, number: int) -> Sample | None:
    if number < len(lanes[lane]):
        return lanes[lane][number]
    if order.tail is not Tail.WRAP:
        return None
    while not lanes[lane]:
        lane = (lane + 1) % len(lanes)
    return lanes[lane][number % len(lanes[lane])]


def all_rows(order: Order, epoch: int = 0) -> Rows:
    return order.epoch(epoch).rows(0, order.steps, range(order.lanes))


@settings(max_examples=300)
@given(orders(), st.integers(0, 3))
def test_the_order_of_a_mix_is_the_written_definition(order: Order, epoch: int) -> None:
    wanted = expected(order, epoch)
    rows = all_rows(order, epoch)
    stored = int(order.counts.sum())
    assert rows.valid.tolist() == [sample is not None for sample in wanted]
    assert rows.ids.tolist() == [-1 if sample is None else sample.id for sample in wanted]
    valid = rows.only(np.flatnonzero(rows.valid))
    present = [sample for sample in wanted if sample is not None]
    draw_ids = valid.draw_ids(stored)
    addressed = valid.ids if draw_ids is None else draw_ids
    assert addressed.tolist() == [sample.id + sample.repeat * stored for sample in present]
    if valid.sources is not None:
        assert valid.sources.tolist() == [sample.source for sample in present]
    assert (order.first_ids[valid.blocks] + valid.places == valid.ids).all()
    assert (valid.places < order.counts[valid.blocks]).all()


@given(orders(), st.data())
def test_any_part_of_a_mixed_epoch_can_be_asked_for_alone(
    order: Order, data: st.DataObject
) -> None:
    q = order.lane_rows
    whole = all_rows(order).ids.reshape(order.steps, order.lanes, q)
    step = data.draw(st.integers(0, order.steps - 1))
    steps = data.draw(st.integers(1, order.steps - step))
    lane = data.draw(st.integers(0, order.lanes - 1))
    part = order.epoch(0).rows(step, steps, range(lane, lane + 1))
    assert part.ids.tolist() == whole[step : step + steps, lane].reshape(-1).tolist()


@pytest.mark.parametrize("shuffle", Shuffle)
@pytest.mark.parametrize("weights", [(), (300, 700)])
def test_a_rank_gets_its_rows_of_the_mixed_batch(
    shuffle: Shuffle, weights: tuple[int, ...]
) -> None:
    order = mix_of([[9, 4], [7, 1, 8]], 12, 6, weights, shuffle=shuffle)
    whole = all_rows(order).ids.reshape(order.steps, 12)
    for size in (1, 2, 3, 6):
        parts = [
            order.epoch(0).rows(0, order.steps, order.lanes_of(rank, size)).ids
            for rank in range(size)
        ]
        joined = np.concatenate([part.reshape(order.steps, -1) for part in parts], axis=1)
        assert joined.tolist() == whole.tolist()


@pytest.mark.parametrize("shuffle", Shuffle)
@pytest.mark.parametrize("counts", [[[30], [4, 5, 1]], [[1], [99], [0, 7]], [[3], [0]]])
def test_without_weights_every_sample_comes_once(shuffle: Shuffle, counts: list[list[int]]) -> None:
    order = mix_of(counts, 8, 4, shuffle=shuffle, window=2)
    rows = all_rows(order, 1)
    assert sorted(rows.ids[rows.valid].tolist()) == list(range(sum(map(sum, counts))))
    assert order.rounds == 1
    assert rows.repeats is None


def test_with_weights_a_thousand_places_of_c_have_the_weights() -> None:
    order = mix_of([[40], [25, 5]], 100, 1, (137, 863), 4000, shuffle=Shuffle.NONE)
    rows = all_rows(order)
    assert rows.sources is not None
    for start in (0, 1000, 2345, 3000):
        assert Counter(rows.sources[start : start + 1000].tolist()) == {0: 137, 1: 863}


@given(orders().filter(lambda order: order.tail is not Tail.WRAP))
def test_a_source_that_runs_out_starts_again_and_draws_anew(order: Order) -> None:
    rows = all_rows(order)
    stored = int(order.counts.sum())
    ids = rows.ids if (draw_ids := rows.draw_ids(stored)) is None else draw_ids
    addressed = ids[rows.valid].tolist()
    assert len(set(addressed)) == len(addressed)
    assert max(addressed) < stored * order.rounds
    assert [i % stored for i in addressed] == rows.ids[rows.valid].tolist()


@given(
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any),
    shuffle=st.sampled_from(Shuffle),
    weights=st.sampled_from([(), (1000,)]),
)
def test_a_mix_of_one_source_is_that_source(
    counts: list[int], shuffle: Shuffle, weights: tuple[int, ...]
) -> None:
    alone = Order(np.array(counts, np.int64), 12, 6, seed=5, shuffle=shuffle, window=2)
    mix = mix_of([counts], 12, 6, weights, shuffle=shuffle, window=2)
    assert all_rows(mix, 2).ids.tolist() == all_rows(alone, 2).ids.tolist()


@given(orders(Shuffle.NONE, Shuffle.BLOCKS), st.data())
def test_legs_of_each_source_hold_every_row_once_and_all_its_block(
    order: Order, data: st.DataObject
) -> None:
    epoch = order.epoch(2)
    steps = range(data.draw(st.integers(0, order.steps - 1)), order.steps)
    for lane in range(order.lanes):
        rows = epoch.rows(steps.start, len(steps), range(lane, lane + 1))
        lane_rows = np.arange(len(rows)) + steps.start * order.lane_rows
        sources = np.zeros(len(rows), np.int64) if rows.sources is None else rows.sources
        legs = epoch.legs(steps, lane)
        for source in range(len(order.sources)):
            present = np.flatnonzero(rows.valid & (sources == source))
            own = rows.only(present)
            mine = [leg for leg in legs if leg.source == source]
            of_number = {n: leg for leg in mine for n in range(leg.first, leg.last)}
            assert list(of_number) == own.numbers.tolist()
            for block, number in zip(own.blocks.tolist(), own.numbers.tolist(), strict=True):
                assert block in of_number[number].blocks
            row_of = dict(zip(own.numbers.tolist(), lane_rows[present].tolist(), strict=True))
            assert [leg.row for leg in mine] == [row_of[leg.first] for leg in mine]
            assert all(len(set(leg.blocks)) == len(leg.blocks) for leg in mine)


@given(orders(Shuffle.NONE, Shuffle.BLOCKS))
def test_no_window_of_a_mix_is_larger_than_its_slot(order: Order) -> None:
    slots = slot_blocks(order)
    for epoch in range(2):
        for lane in range(order.lanes):
            for leg in order.epoch(epoch).legs(range(order.steps), lane):
                assert len(leg.blocks) <= slots[leg.source]
    most = 2 * order.lanes * len(order.sources) * order.window * BLOCK_BYTES
    assert streaming_bytes(order, range(order.lanes)) <= most


@given(orders())
def test_blocks_of_a_mix_are_delivered_in_the_order_of_need(order: Order) -> None:
    lanes = range(order.lanes)
    epoch = order.epoch(0)
    delivery = epoch.delivery(lanes).tolist()
    rows = epoch.rows(0, order.steps, lanes)
    assert len(set(delivery)) == len(delivery)
    assert set(rows.blocks[rows.valid].tolist()) <= set(delivery)
    if order.shuffle is not Shuffle.FULL:
        legs = [leg for lane in lanes for leg in epoch.legs(range(1), lane)]
        ahead = sum(len(leg.blocks) for leg in legs)
        first = rows[: order.batch_size]
        assert set(first.blocks[first.valid].tolist()) <= set(delivery[:ahead])


def test_all_sources_share_the_bytes_of_the_windows() -> None:
    assert window_blocks(512 << 20, 4, 2) == 4
    assert window_blocks(1, 4, 2) == 1


def test_the_first_batch_needs_one_block_of_each_lane_and_source() -> None:
    order = mix_of([[20] * 40, [30] * 40], 16, 4, window=4)
    legs = [leg for lane in range(4) for leg in order.epoch(0).legs(range(1), lane)]
    assert [len(leg.blocks) for leg in legs] == [1] * 8


def test_a_mix_that_no_address_has_room_for_is_refused() -> None:
    with pytest.raises(PlanError, match="block"):
        mix_of([[1], [5]], 4, 2, (999, 1), 1 << 25)
    too_many = MixSpec(tuple(map(str, range(257))), (1,) * 257)
    with pytest.raises(PlanError, match="source"):
        Order(np.ones(257, np.int64), 4, 2, seed=0, mixing=too_many)


def test_a_hundred_million_mixed_samples_are_sought_at_once() -> None:
    order = mix_of([[340] * 290_000, [340] * 10_000], 1024, 16, shuffle=Shuffle.NONE)
    rows = order.epoch(3).rows(order.steps - 2, 1, range(16))
    assert rows.valid.all()
    assert rows.sources is not None
    assert Counter(rows.sources.tolist()).keys() == {0, 1}


def test_a_run_over_the_seam_of_a_source_that_begins_again_fits_its_slot() -> None:
    # The second source's run begins inside its large block and ends in it again.
    mixing = MixSpec(("a", "b", "c"), (1, 2, 1), (1, 167, 832), 50)
    counts = np.array([1, 1, 3, 1])
    order = Order(counts, 3, 3, seed=5, shuffle=Shuffle.NONE, window=2, mixing=mixing)
    slots = slot_blocks(order)
    legs = [leg for lane in range(3) for leg in order.epoch(0).legs(range(order.steps), lane)]
    assert max(len(leg.blocks) for leg in legs) == 2
    assert all(len(leg.blocks) <= slots[leg.source] for leg in legs)
