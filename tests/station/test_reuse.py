"""Which epochs share a decode, and where their rows are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.station.row_cache import CachePolicy, RowBudget


@given(factor=st.integers(1, 9), epoch=st.integers(0, 1000))
def test_every_later_epoch_of_a_group_has_a_slot_of_its_own(factor: int, epoch: int) -> None:
    reuse = CachePolicy(factor)
    first = epoch - epoch % factor
    own = range(first, first + factor)
    assert {reuse.group(one) for one in own} == {reuse.group(epoch)}
    assert reuse.group(first + factor) != reuse.group(epoch)
    assert [reuse.slot(one) for one in own] == [None, *range(factor - 1)]
    assert list(reuse.ahead(epoch)) == [one for one in own if one > epoch]
    assert reuse.slots == factor - 1


@given(st.integers(0, 1000))
def test_what_is_the_same_in_all_epochs_is_kept_at_once_and_for_good(epoch: int) -> None:
    reuse = CachePolicy(always=True)
    assert list(reuse.ahead(epoch)) == [epoch]
    assert (reuse.slots, reuse.slot(epoch), reuse.group(epoch)) == (1, 0, 0)


@pytest.mark.parametrize(
    ("room", "samples"), [(0, 0), (2 * 101 + 4, 0), (2 * 101 + 5, 1), (9999, 7)]
)
def test_as_many_samples_are_kept_as_have_room(room: int, samples: int) -> None:
    budget = RowBudget(samples=7, slots=2, row_bytes=100)
    assert budget.sample_bytes == 2 * 101 + 5
    assert budget.needed == 7 * budget.sample_bytes
    assert budget.within(room) == samples
