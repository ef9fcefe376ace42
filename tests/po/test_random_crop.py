import numpy as np
import pytest

from dtsflow.po import Chain, RandomCrop
from dtsflow.po.operation import Params
from dtsflow.spec import ImageSpec


def drawn(crop: RandomCrop, height: int, width: int, count: int = 4000) -> Params:
    program = Chain((crop,)).program(ImageSpec(None, None, 3))
    sizes = np.full((count, 2), (height, width), np.int64)
    return program.draw(seed=1, ids=np.arange(count), epoch=0, phase=0, sizes=sizes)[0]


def test_every_place_of_the_padded_image_is_as_likely() -> None:
    places = drawn(RandomCrop(32, padding=4), 32, 32)
    for axis in ("y", "x"):
        counts = np.bincount(places[axis] + 4, minlength=9)
        assert len(counts) == 9
        assert abs(counts - 4000 / 9).max() < 5 * np.sqrt(4000 / 9)
    assert abs(np.corrcoef(places["y"], places["x"])[0, 1]) < 0.06


def test_an_image_of_exactly_the_size_is_kept_whole() -> None:
    places = drawn(RandomCrop((20, 30)), 20, 30, 50)
    assert not places["y"].any()
    assert not places["x"].any()


def test_a_shorter_side_is_padded_on_both_ends_by_what_it_lacks() -> None:
    places = drawn(RandomCrop((10, 32)), 40, 20)
    assert (places["y"].min(), places["y"].max()) == (0, 30)
    assert (places["x"].min(), places["x"].max()) == (-12, 0)


@pytest.mark.parametrize(("y", "x"), [(0, 0), (-3, 2), (5, 6), (-9, -9), (8, 8)])
def test_the_window_holds_the_image_and_zeros(y: int, x: int) -> None:
    image = np.arange(1, 8 * 8 * 3 + 1, dtype=np.uint8).reshape(8, 8, 3)
    padded = np.zeros((40, 40, 3), np.uint8)
    padded[16:24, 16:24] = image
    row = drawn(RandomCrop(6), 8, 8, 1)
    row["y"], row["x"] = y, x
    out = np.full((6, 6, 3), 0xCC, np.uint8)
    RandomCrop(6).apply(image, out, row[0])
    assert np.array_equal(out, padded[16 + y : 22 + y, 16 + x : 22 + x])
