from hypothesis import given
from hypothesis import strategies as st

from dtsflow.reader.files import Ring

CAPACITY = 40
# A size to take, or which of the places that are taken to free.
STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, CAPACITY - 1)), max_size=60)


@given(STEPS)
def test_places_lie_inside_and_never_overlap(steps: list[tuple[bool, int]]) -> None:
    ring = Ring(CAPACITY)
    taken: dict[int, int] = {}
    for takes, number in steps:
        if takes:
            size = 1 + number
            start = ring.take(size)
            if start is not None:
                assert 0 <= start <= CAPACITY - size
                assert all(start + size <= a or b <= start for a, b in taken.items())
                taken[start] = start + size
        elif taken:
            start = sorted(taken)[number % len(taken)]
            ring.free(start)
            del taken[start]


@given(STEPS, st.integers(1, CAPACITY))
def test_what_is_not_larger_than_all_finds_room_when_all_is_free(
    steps: list[tuple[bool, int]], size: int
) -> None:
    ring = Ring(CAPACITY)
    taken = []
    for takes, number in steps:
        if takes and (start := ring.take(1 + number)) is not None:
            taken.append(start)
        elif taken:
            ring.free(taken.pop(number % len(taken)))
    for start in taken:
        ring.free(start)
    assert ring.take(size) == 0


def test_places_are_used_again_in_the_order_they_were_given() -> None:
    ring = Ring(10)
    assert [ring.take(4), ring.take(4), ring.take(4)] == [0, 4, None]
    ring.free(4)  # the one in front of it is still needed
    assert ring.take(4) is None
    ring.free(0)
    assert [ring.take(6), ring.take(4), ring.take(1)] == [0, 6, None]
    ring.clear()
    assert ring.take(10) == 0
