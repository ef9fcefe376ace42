import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dtsflow.volume.packing.arrange import arrange, first_fit_decreasing

CAPACITY = 16_773_120  # of a block at level 0
MOST = 340
SOME_SIZES = st.lists(st.integers(0, 100), max_size=60)


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


def like_imagenet(count: int) -> list[int]:
    """Sizes with ImageNet's mean of about 114.6 kB, as they lie in a block."""
    drawn = np.random.default_rng(0).lognormal(0.0, 0.6, count)
    sizes = np.clip(drawn * (114_600 / drawn.mean()), 2_000, 15_000_000)
    aligned: list[int] = (-(-sizes.astype(np.int64) // 64) * 64).tolist()
    return aligned


@given(SOME_SIZES, st.integers(1, 9))
def test_it_is_first_fit_decreasing(sizes: list[int], most: int) -> None:
    assert first_fit_decreasing(sizes, 100, most) == by_scanning(sizes, 100, most)


def test_nothing_takes_no_bin() -> None:
    assert first_fit_decreasing([], 100, 3) == []
    assert arrange([], 100, 3) == []


def test_a_hundred_thousand_samples_take_a_moment() -> None:
    sizes = [64 * (1 + i * 7919 % 4000) for i in range(100_000)]
    bins = first_fit_decreasing(sizes, CAPACITY, MOST)
    assert sum(len(members) for members in bins) == 100_000
    assert len(bins) <= 1.05 * sum(sizes) / CAPACITY + 1


@given(SOME_SIZES, st.integers(1, 9))
def test_every_item_is_in_one_bin_and_no_bin_holds_too_much(sizes: list[int], most: int) -> None:
    bins = arrange(sizes, 100, most)
    assert sorted(item for members in bins for item in members) == list(range(len(sizes)))
    assert all(1 <= len(members) <= most for members in bins)
    assert all(sum(sizes[item] for item in members) <= 100 for members in bins)


@given(SOME_SIZES, st.integers(1, 9))
def test_it_never_takes_more_bins_than_first_fit_decreasing(sizes: list[int], most: int) -> None:
    assert len(arrange(sizes, 100, most)) <= len(by_scanning(sizes, 100, most))


@given(st.lists(st.integers(34, 100), max_size=40))
def test_so_it_is_with_items_that_fill_much_of_a_bin(sizes: list[int]) -> None:
    bins = arrange(sizes, 100, 5)
    assert sorted(item for members in bins for item in members) == list(range(len(sizes)))
    assert len(bins) <= len(by_scanning(sizes, 100, 5))


@given(SOME_SIZES, st.integers(1, 9))
def test_a_bin_lists_its_items_largest_first_and_equal_ones_in_order(
    sizes: list[int], most: int
) -> None:
    for members in arrange(sizes, 100, most):
        assert members == sorted(members, key=lambda item: (-sizes[item], item))


def test_bins_may_be_full_to_the_last_byte_and_by_number() -> None:
    assert arrange([100] * 3, 100, 9) == [[0], [1], [2]]
    assert sorted(map(len, arrange([0] * 7, 100, 3))) == [1, 3, 3]
    assert len(arrange([50, 50, 25, 25, 25, 25], 100, 9)) == 2


def test_bins_are_alike_in_the_number_and_the_mix_of_their_items() -> None:
    sizes = like_imagenet(30_000)
    bins = arrange(sizes, CAPACITY, MOST)
    counts = np.array([len(members) for members in bins])
    assert counts.max() <= 1.35 * counts.min()
    assert counts.std() <= 0.06 * counts.mean()
    largest = np.array([max(sizes[item] for item in members) for members in bins])
    assert largest.min() > np.quantile(sizes, 0.95)
    # Alone, first-fit decreasing makes blocks of few large images, and of many small.
    alone = np.array([len(members) for members in first_fit_decreasing(sizes, CAPACITY, MOST)])
    assert alone.std() > 3 * counts.std()


def test_imagenets_1281167_images_take_8768_blocks_and_waste_next_to_nothing() -> None:
    sizes = like_imagenet(1_281_167)
    bins = arrange(sizes, CAPACITY, MOST)
    assert len(bins) <= 8_768
    assert 1 - sum(sizes) / (len(bins) * CAPACITY) <= 0.0008
    assert sum(len(members) for members in bins) == len(sizes)
    assert max(len(members) for members in bins) <= MOST
    assert max(sum(sizes[item] for item in members) for members in bins) <= CAPACITY
