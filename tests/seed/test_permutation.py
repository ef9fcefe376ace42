import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers, sampled_from

from dtsflow.errors import PlanError
from dtsflow.seed.address import Purpose
from dtsflow.seed.draws import permutation

MASK = 2**32 - 1


def scalar_philox(counter: tuple[int, int, int, int], seed: int) -> tuple[int, int, int, int]:
    """Philox4x32-10 one number at a time, written after the paper."""
    c0, c1, c2, c3 = counter
    k0, k1 = seed & MASK, seed >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


def test_the_reference_gives_a_published_vector() -> None:
    counter = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert scalar_philox(counter, 0x299F31D0A4093822)[0] == 0xD16CFE09


@settings(max_examples=50)
@given(
    n=integers(0, 60),
    seed=integers(0, 2**64 - 1),
    epoch=integers(0, 2**32 - 1),
    purpose=sampled_from(Purpose),
    phase=integers(0, 15),
    block=integers(0, 2**24 - 1),
    sub=integers(0, 2**24 - 1),
)
def test_it_is_the_stable_sort_by_addressed_keys(  # noqa: PLR0913  # one for each field
    *, n: int, seed: int, epoch: int, purpose: Purpose, phase: int, block: int, sub: int
) -> None:
    def sort_key(element: int) -> int:
        top = (purpose.value + 16 * phase) * 2**24 + sub
        w0, w1, _, _ = scalar_philox((element, block, epoch, top), seed)
        return w0 * 2**32 + w1

    made = permutation(
        n, seed=seed, epoch=epoch, purpose=purpose, phase=phase, block=block, sub=sub
    )
    assert made.tolist() == sorted(range(n), key=sort_key)
    assert made.dtype == np.int64


@given(integers(0, 3000), integers(0, 2**64 - 1))
def test_every_element_appears_once(n: int, seed: int) -> None:
    made = permutation(n, seed=seed, epoch=0, purpose=Purpose.ORDER)
    assert np.array_equal(np.sort(made), np.arange(n))


def test_none_and_one_element_work() -> None:
    assert permutation(0, seed=1, epoch=0, purpose=Purpose.ORDER).tolist() == []
    assert permutation(1, seed=1, epoch=0, purpose=Purpose.ORDER).tolist() == [0]


def test_each_field_of_the_address_gives_another_order() -> None:
    base = {"seed": 5, "epoch": 0, "phase": 0, "block": 0, "sub": 0}
    orders = set()
    for field in ("", *base):
        changed = {name: value + (name == field) for name, value in base.items()}
        for purpose in (Purpose.ORDER, Purpose.WINDOW):
            orders.add(tuple(permutation(100, purpose=purpose, **changed).tolist()))
    assert len(orders) == 2 * (len(base) + 1)


def test_two_orders_agree_in_about_one_place() -> None:
    one = permutation(10_000, seed=5, epoch=0, purpose=Purpose.ORDER)
    other = permutation(10_000, seed=5, epoch=1, purpose=Purpose.ORDER)
    assert np.count_nonzero(one == other) < 10
    assert np.count_nonzero(one == np.arange(10_000)) < 10


def test_an_order_is_what_it_has_always_been() -> None:
    made = permutation(8, seed=1, epoch=0, purpose=Purpose.ORDER)
    assert made.tolist() == [0, 4, 2, 6, 1, 3, 7, 5]


def test_a_field_without_room_is_refused() -> None:
    with pytest.raises(PlanError, match="block 16777216"):
        permutation(3, seed=1, epoch=0, purpose=Purpose.WINDOW, block=2**24)
