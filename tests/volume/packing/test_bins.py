from hypothesis import given
from hypothesis import strategies as st

from dtsflow.volume.packing.bins import first_fit_decreasing


def by_scanning(sizes: list[int], capacity: int, most: int) -> list[list[int]]:
    """The same, written the obvious way."""
    bins: list[list[int]] = []
    for item in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        for members in bins:
            room = capacity - sum(sizes[i] for i in members)
            if len(members) < most and sizes[item] <= room:
                members.append(item)
                break
        else:
            bins.append([item])
    return bins


@given(st.lists(st.integers(0, 100), max_size=60), st.integers(1, 9))
def test_it_is_first_fit_decreasing(sizes: list[int], most: int) -> None:
    assert first_fit_decreasing(sizes, 100, most) == by_scanning(sizes, 100, most)


def test_nothing_takes_no_bin() -> None:
    assert first_fit_decreasing([], 100, 3) == []


def test_a_hundred_thousand_samples_take_a_moment() -> None:
    sizes = [64 * (1 + i * 7919 % 4000) for i in range(100_000)]
    bins = first_fit_decreasing(sizes, 16_773_120, 340)
    assert sum(len(members) for members in bins) == 100_000
    assert len(bins) <= 1.05 * sum(sizes) / 16_773_120 + 1
