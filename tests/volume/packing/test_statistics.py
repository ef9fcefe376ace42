import io
from itertools import permutations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dtsflow.testing import jpeg
from dtsflow.volume.packing.encode import rgb_histogram
from dtsflow.volume.packing.prepare import Sums, is_sampled, sums_of

JPEGS = [jpeg(20 + 9 * seed, 50 - 3 * seed, seed=seed) for seed in range(5)]


def pixels(data: bytes) -> npt.NDArray[np.float64]:
    image = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), np.float64) / 255
    return image.reshape(-1, 3)


def test_mean_and_deviation_are_numpys_over_all_pixels() -> None:
    together = sum((sums_of(rgb_histogram(data)) for data in JPEGS), Sums())
    everything = np.concatenate([pixels(data) for data in JPEGS])
    assert together.images == 5
    assert together.pixels == len(everything)
    assert together.mean == pytest.approx(everything.mean(axis=0), abs=6e-5)
    assert together.std == pytest.approx(everything.std(axis=0), abs=6e-5)
    # Not the mean of the images' means: large images count for more.
    assert together.mean != pytest.approx(
        np.mean([pixels(data).mean(axis=0) for data in JPEGS], axis=0), abs=6e-5
    )


def test_the_channels_are_red_green_blue() -> None:
    file = io.BytesIO()
    Image.new("RGB", (4, 2), (255, 51, 0)).save(file, "PNG")
    got = sums_of(rgb_histogram(file.getvalue()))
    assert got == Sums(1, 8, (8 * 255, 8 * 51, 0), (8 * 255**2, 8 * 51**2, 0))
    assert got.mean == (1.0, 0.2, 0.0)
    assert got.std == (0.0, 0.0, 0.0)


def test_the_order_of_adding_changes_no_bit() -> None:
    parts = [sums_of(rgb_histogram(data)) for data in JPEGS]
    assert len({sum(order, Sums()) for order in permutations(parts)}) == 1


def test_without_pixels_there_is_no_mean() -> None:
    assert Sums().mean == Sums().std == ()
    assert Sums() + Sums() == Sums()


def test_a_billion_white_pixels_have_no_deviation_and_do_not_overflow() -> None:
    histogram = [0] * 255 + [1 << 40]
    got = sums_of(histogram * 3)
    assert (got.mean, got.std) == ((1.0,) * 3, (0.0,) * 3)
    more = sum([got] * 1000, Sums())
    assert more.totals[0] == 1000 * 255 * (1 << 40)
    assert more.std == (0.0,) * 3


@given(st.lists(st.integers(0, 1000), min_size=768, max_size=768))
def test_no_histogram_has_a_deviation_that_is_no_number(histogram: list[int]) -> None:
    # All channels have the pixels of the first, as those of an image do.
    first = histogram[:256]
    got = sums_of(first + first[::-1] + sorted(first))
    assert all(0 <= value <= 0.5 for value in got.std)


def test_of_a_small_set_every_image_is_sampled() -> None:
    for images in (1, 40, 64):
        assert all(is_sampled(f"a/{number}.jpg", images) for number in range(images))


@pytest.mark.parametrize(("images", "expected"), [(640, 64), (2048, 64), (20_000, 625)])
def test_of_a_larger_one_at_least_64_and_at_most_a_32nd(images: int, expected: int) -> None:
    sampled = sum(is_sampled(f"a/{number}.jpg", images) for number in range(images))
    assert abs(sampled - expected) < 5 * expected**0.5


def test_a_larger_set_samples_fewer_of_the_same_names() -> None:
    names = [f"{number}" for number in range(2000)]
    few = {name for name in names if is_sampled(name, 1900)}
    assert few < {name for name in names if is_sampled(name, 400)}
    # Above 2048 the share stays.
    assert few == {name for name in names if is_sampled(name, 2048)} | few
    assert {name for name in names if is_sampled(name, 2048)} == {
        name for name in names if is_sampled(name, 1 << 30)
    }
