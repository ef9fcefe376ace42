import numpy as np
import pytest
from hypothesis import example, given
from hypothesis.strategies import integers, sampled_from, sets, text, tuples

from dtsflow.errors import PlanError
from dtsflow.seed.address import (
    Purpose,
    counters,
    key,
    operation_sub,
    pass_words,
    phase_number,
    window_sub,
)

Address = tuple[int, int, int, Purpose, int, int]
addresses = tuples(
    integers(0, 2**40 - 1),
    integers(0, 2**24 - 1),
    integers(0, 2**32 - 1),
    sampled_from(Purpose),
    integers(0, 15),
    integers(0, 2**24 - 1),
)


def counter(address: Address) -> list[int]:
    id_, block, epoch, purpose, phase, sub = address
    words = counters(id_, block=block, epoch=epoch, purpose=purpose, phase=phase, sub=sub)
    return [int(word) for word in words]


@given(addresses)
@example((2**40 - 1, 2**24 - 1, 2**32 - 1, Purpose.ORDER, 15, 2**24 - 1))  # rarely drawn
def test_a_counter_holds_every_field_in_its_place(address: Address) -> None:
    id_, block, epoch, purpose, phase, sub = address
    assert counter(address) == [
        id_ % 2**32,
        id_ // 2**32 * 2**24 + block,
        epoch,
        (purpose.value + 16 * phase) * 2**24 + sub,
    ]


@given(addresses, addresses)
def test_different_addresses_have_different_counters(one: Address, other: Address) -> None:
    assert (counter(one) == counter(other)) == (one == other)


@given(integers(0, 2**64 - 1), integers(0, 2**32 - 1), integers(0, 15), integers(0, 255))
def test_the_words_of_a_pass_are_those_of_its_first_operation(
    seed: int, epoch: int, phase: int, view: int
) -> None:
    words = counter((1, 0, epoch, Purpose.OPERATION, phase, operation_sub(view, 0)))
    assert pass_words(seed, epoch, phase, view) == (*key(seed), *words[2:])


@pytest.mark.parametrize("where", [(2**64, 0, 0, 0), (0, 2**32, 0, 0), (0, 0, 0, 256)])
def test_a_pass_without_an_address_is_refused(where: tuple[int, int, int, int]) -> None:
    with pytest.raises(PlanError, match="address of a random draw"):
        pass_words(*where)


def test_ids_blocks_and_subs_broadcast_against_each_other() -> None:
    ids = np.array([[5], [2**32 + 6]], np.int64)
    block = np.array([0, 1, 0])
    sub = np.array([1, 1, 2])
    grid = counters(ids, block=block, epoch=9, purpose=Purpose.WINDOW, phase=1, sub=sub)
    assert grid.shape == (2, 3, 4)
    assert grid.dtype == np.uint32
    assert grid[1, 1].tolist() == [6, 2**24 + 1, 9, 19 * 2**24 + 1]
    assert grid[0, 2].tolist() == [5, 0, 9, 19 * 2**24 + 2]


@pytest.mark.parametrize(
    ("field", "address"),
    [
        ("id 1099511627776", (2**40, 0, 0, Purpose.ORDER, 0, 0)),
        ("id -1", (-1, 0, 0, Purpose.ORDER, 0, 0)),
        ("block 16777216", (0, 2**24, 0, Purpose.ORDER, 0, 0)),
        ("epoch 4294967296", (0, 0, 2**32, Purpose.ORDER, 0, 0)),
        ("phase 16", (0, 0, 0, Purpose.ORDER, 16, 0)),
        ("sub 16777216", (0, 0, 0, Purpose.ORDER, 0, 2**24)),
    ],
)
def test_a_field_without_room_is_named_with_its_value(field: str, address: Address) -> None:
    with pytest.raises(PlanError, match=f"{field} is outside 0.."):
        counter(address)


def test_one_bad_id_among_many_is_named() -> None:
    ids = np.array([3, -1, 8])
    with pytest.raises(PlanError, match=r"id -1 is outside 0..1099511627775"):
        counters(ids, block=0, epoch=0, purpose=Purpose.OPERATION, phase=0, sub=0)


def test_the_purposes_keep_their_numbers() -> None:
    assert [purpose.value for purpose in Purpose] == [1, 2, 3, 4]


def test_a_seed_splits_into_its_low_and_high_word() -> None:
    assert key(0) == (0, 0)
    assert key(0x1122334455667788) == (0x55667788, 0x11223344)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_that_needs_more_than_64_bits_is_refused(seed: int) -> None:
    with pytest.raises(PlanError, match=f"seed {seed} is outside 0..18446744073709551615"):
        key(seed)


def test_an_operation_is_placed_by_view_and_position() -> None:
    assert operation_sub(3, 7) == 3 * 2**16 + 7
    with pytest.raises(PlanError, match=r"view 256 is outside 0..255"):
        operation_sub(256, 0)
    with pytest.raises(PlanError, match=r"position 65536 is outside 0..65535"):
        operation_sub(0, 65536)


def test_a_window_is_placed_by_source_and_lane() -> None:
    assert window_sub(2, 11) == 2 * 2**16 + 11
    with pytest.raises(PlanError, match=r"source 256 is outside 0..255"):
        window_sub(256, 0)
    with pytest.raises(PlanError, match=r"lane 65536 is outside 0..65535"):
        window_sub(0, 65536)


def test_the_usual_phases_have_fixed_numbers() -> None:
    others = ["a", "test", "z"]
    assert [phase_number(name, others) for name in ("train", "val", "test")] == [0, 1, 2]


def test_other_phases_count_from_three_by_name() -> None:
    names = ["warmup", "train", "adapt", "val"]
    assert phase_number("adapt", names) == 3
    assert phase_number("warmup", names) == 4
    assert phase_number("alone") == 3


@given(sets(text("abc", max_size=4), max_size=13))
def test_no_two_phases_share_a_number(names: set[str]) -> None:
    everyone = names | {"train", "val", "test"}
    assert len({phase_number(name, everyone) for name in everyone}) == len(everyone)


def test_more_phases_than_an_address_can_tell_apart_are_refused() -> None:
    names = [f"phase{i:02}" for i in range(14)]
    assert phase_number("phase12", names) == 15
    with pytest.raises(PlanError, match=r"'phase13' would be number 16, and numbers end at 15"):
        phase_number("phase13", names)
