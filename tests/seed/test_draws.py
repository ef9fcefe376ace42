import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists

from dtsflow.errors import PlanError
from dtsflow.seed.address import Purpose, counters, key, operation_sub, philox4x32
from dtsflow.seed.draws import Draws, operation_draws

IDS = np.array([0, 5, 2**33 + 1], np.int64)


def draws_of(*words: int, seed: int = 11, epoch: int = 2, view: int = 1) -> list[Draws]:
    return operation_draws(seed=seed, ids=IDS, epoch=epoch, phase=0, view=view, words=words)


def many(n: int = 200_000) -> Draws:
    ids = np.arange(n, dtype=np.int64)
    return operation_draws(seed=3, ids=ids, epoch=0, phase=0, view=0, words=[2])[0]


@given(lists(integers(0, 9), max_size=4))
def test_draw_k_is_word_k_mod_4_of_block_k_div_4(words: list[int]) -> None:
    chain = draws_of(*words)
    assert [draws.words.shape for draws in chain] == [(3, count) for count in words]
    for position, draws in enumerate(chain):
        for k in range(words[position]):
            address = counters(
                IDS,
                block=k // 4,
                epoch=2,
                purpose=Purpose.OPERATION,
                phase=0,
                sub=operation_sub(1, position),
            )
            assert np.array_equal(draws.words[:, k], philox4x32(address, key(11))[:, k % 4])


def test_asking_for_more_draws_keeps_the_ones_there_were() -> None:
    few, more = draws_of(3)[0], draws_of(22)[0]
    assert np.array_equal(few.words, more.words[:, :3])


def test_what_another_operation_draws_changes_nothing() -> None:
    assert np.array_equal(draws_of(1, 2)[1].words, draws_of(0, 2)[1].words)


def test_a_sample_draws_the_same_in_any_company() -> None:
    alone = operation_draws(seed=11, ids=IDS[1:2], epoch=2, phase=0, view=1, words=[5])[0]
    assert np.array_equal(alone.words[0], draws_of(5)[0].words[1])


def test_seed_epoch_phase_view_position_and_sample_all_matter() -> None:
    base = {"seed": 1, "epoch": 0, "phase": 0, "view": 0}
    seen: set[int] = set()
    for field in ("", "seed", "epoch", "phase", "view"):
        changed = {name: value + (name == field) for name, value in base.items()}
        chain = operation_draws(ids=np.arange(2), words=[1, 1], **changed)
        seen.update(int(word) for draws in chain for word in draws.words.ravel())
    assert len(seen) == 5 * 2 * 2


def test_a_chain_without_draws_is_served_without_any() -> None:
    assert draws_of() == []
    (draws,) = draws_of(0)
    assert len(draws) == 3
    assert draws.words.shape == (3, 0)


def test_a_chunk_without_samples_has_empty_draws() -> None:
    ids = np.empty(0, np.int64)
    (draws,) = operation_draws(seed=1, ids=ids, epoch=0, phase=0, view=0, words=[3])
    assert len(draws) == 0
    assert draws.uniform(2).shape == (0,)
    assert draws.integers(2, np.empty(0, np.int64)).shape == (0,)


def test_a_uniform_draw_keeps_the_upper_24_bits() -> None:
    draws = Draws(np.array([[0], [255], [256], [2**32 - 1]], np.uint32))
    assert draws.uniform(0).tolist() == [0.0, 0.0, 2.0**-24, 1 - 2.0**-24]
    assert draws.uniform(0).dtype == np.float64


def test_an_integer_draw_is_a_multiply_and_a_shift() -> None:
    draws = Draws(np.array([[0], [2**31], [2**32 - 1]], np.uint32))
    assert draws.integers(0, 10).tolist() == [0, 5, 9]
    assert draws.integers(0, 1).tolist() == [0, 0, 0]
    assert draws.integers(0, 2**32).tolist() == [0, 2**31, 2**32 - 1]
    assert draws.integers(0, np.array([7, 8, 9])).tolist() == [0, 4, 8]
    assert draws.integers(0, 10).dtype == np.int64


@pytest.mark.parametrize("bound", [0, -3, 2**32 + 1])
def test_an_empty_or_too_wide_range_is_refused(bound: int) -> None:
    draws = Draws(np.zeros((2, 1), np.uint32))
    with pytest.raises(PlanError, match=f"draw 0: whole numbers below {bound}"):
        draws.integers(0, bound)
    with pytest.raises(PlanError, match=r"bound must lie in 1\.\.4294967296"):
        draws.integers(0, np.array([5, bound]))


def test_an_epoch_without_room_in_an_address_is_refused() -> None:
    with pytest.raises(PlanError, match="epoch 4294967296"):
        draws_of(1, epoch=2**32)


def test_uniform_draws_are_flat_and_independent() -> None:
    draws = many()
    x, y = draws.uniform(0), draws.uniform(1)
    assert x.min() >= 0
    assert x.max() < 1
    # Limits at about five standard deviations of what truly uniform numbers do.
    assert abs(x.mean() - 0.5) < 5 * (1 / 12 / len(x)) ** 0.5
    assert abs(x.var() - 1 / 12) < 5 * (1 / 180 / len(x)) ** 0.5
    assert abs(np.corrcoef(x, y)[0, 1]) < 5 / len(x) ** 0.5
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 5 / len(x) ** 0.5
    counts, _ = np.histogram(x, bins=64, range=(0, 1))
    expected = len(x) / 64
    assert ((counts - expected) ** 2 / expected).sum() < 63 + 5 * (2 * 63) ** 0.5


def test_integer_draws_reach_every_number_equally_often() -> None:
    counts = np.bincount(many().integers(0, 7), minlength=7)
    expected = counts.sum() / 7
    assert len(counts) == 7
    assert ((counts - expected) ** 2 / expected).sum() < 6 + 5 * (2 * 6) ** 0.5
