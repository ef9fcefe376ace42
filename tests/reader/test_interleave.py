from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.errors import PlanError
from dtsflow.reader.interleave import ByWeight, InProportion, Merging, MixSpec

SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=5).filter(any).map(tuple)


def sorted_by_key(sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    """Source and sample at each place, from the fractions themselves."""
    keys = (
        (Fraction(2 * j + 1, 2 * n), source, j) for source, n in enumerate(sizes) for j in range(n)
    )
    return [(source, j) for _, source, j in sorted(keys)]


def all_turns(merging: Merging, first: int, last: int) -> list[tuple[int, int]]:
    sources, numbers = merging.turns(first, last)
    return list(zip(sources.tolist(), numbers.tolist(), strict=True))


def check_parts(merging: Merging, data: st.DataObject) -> None:
    """Whatever part is asked for, it is the part of the whole."""
    whole = all_turns(merging, 0, merging.samples)
    first = data.draw(st.integers(0, merging.samples))
    last = data.draw(st.integers(first, merging.samples))
    assert all_turns(merging, first, last) == whole[first:last]
    sources = [source for source, _ in whole[:first]]
    assert merging.before(first) == tuple(sources.count(i) for i in range(len(merging.before(0))))
    for place, (source, number) in enumerate(whole[first:last], first):
        assert merging.place(source, number) == place


@given(SIZES, st.data())
def test_in_proportion_is_the_order_of_the_keys(
    sizes: tuple[int, ...], data: st.DataObject
) -> None:
    merging = InProportion(sizes)
    assert merging.samples == sum(sizes)
    assert all_turns(merging, 0, sum(sizes)) == sorted_by_key(sizes)
    check_parts(merging, data)


@given(
    st.lists(st.integers(1, 1 << 39), min_size=2, max_size=4).map(tuple),
    st.floats(0, 1),
)
def test_places_of_huge_sources_are_exact(sizes: tuple[int, ...], share: float) -> None:
    merging = InProportion(sizes)
    first = min(int(share * merging.samples), merging.samples - 1)
    last = min(first + 50, merging.samples)
    turns = all_turns(merging, first, last)
    assert [merging.place(*turn) for turn in turns] == list(range(first, last))
    keys = [(Fraction(2 * j + 1, 2 * sizes[source]), source) for source, j in turns]
    assert keys == sorted(keys)


CUTS = st.lists(st.integers(1, 999), max_size=4, unique=True)
WEIGHTS = CUTS.map(lambda cuts: tuple(np.diff([0, *sorted(cuts), 1000]).tolist()))


@given(WEIGHTS, st.integers(1, 3000), st.data())
def test_every_thousand_places_have_the_weights(
    weights: tuple[int, ...], samples: int, data: st.DataObject
) -> None:
    merging = ByWeight((7,) * len(weights), weights, samples)
    assert merging.samples == samples
    start = data.draw(st.integers(0, 5000))
    sources, _ = merging.turns(start, start + 1000)
    assert np.bincount(sources, minlength=len(weights)).tolist() == list(weights)
    check_parts(merging, data)


@given(WEIGHTS)
def test_no_source_is_ever_a_whole_place_ahead(weights: tuple[int, ...]) -> None:
    table = ByWeight((1,) * len(weights), weights, 1000).table
    taken = np.cumsum(table[:, None] == np.arange(len(weights)), axis=0)
    due = np.arange(1, 1001)[:, None] * np.array(weights) / 1000
    assert (taken - due < 1).all()


def test_the_source_furthest_behind_comes_next_and_of_equal_ones_the_first() -> None:
    table = ByWeight((1, 1, 1), (200, 500, 300), 10).table
    # Behind by 0.2, 0.5, 0.3; by 0.4, 0, 0.6; by 0.6, 0.5, -0.1; by -0.2, 1, 0.2; …
    assert table[:10].tolist() == [1, 2, 0, 1, 1, 2, 1, 0, 2, 1]
    assert table[10:20].tolist() == table[:10].tolist()
    assert ByWeight((1, 1), (500, 500), 10).table[:4].tolist() == [0, 1, 0, 1]


def test_an_epoch_by_weight_has_as_many_samples_as_asked_for_or_as_there_are() -> None:
    mixing = MixSpec(("a", "b"), (1, 1), (400, 600))
    assert mixing.merging((3, 4)).samples == 7
    assert MixSpec(("a", "b"), (1, 1), (400, 600), 50).merging((3, 4)).samples == 50


def test_a_weight_for_no_samples_is_refused() -> None:
    with pytest.raises(PlanError, match=r"reader\.mix\.b has a weight, and reader\.subset has"):
        MixSpec(("a", "b"), (1, 1), (400, 600)).merging((3, 0))
    assert MixSpec(("a", "b"), (1, 1)).merging((3, 0)).before(3) == (3, 0)
