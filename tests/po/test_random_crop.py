import numpy as np
import pytest

from dtsflow.errors import PlanError
from dtsflow.po import Chain, RandomCrop
from dtsflow.po.geometry import BORDERS, Border
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


@pytest.mark.parametrize("mode", BORDERS)
def test_the_padding_shows_what_its_mode_says(mode: Border) -> None:
    image = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
    crop = RandomCrop((5, 7), padding=(3, 1), padding_mode=mode)
    padded = np.pad(image, ((1, 1), (3, 3), (0, 0)), mode)
    for row in drawn(crop, 6, 8, 40):
        out = np.full((5, 7, 3), 0xCC, np.uint8)
        crop.apply(image, out, row)
        y, x = int(row["y"]) + 1, int(row["x"]) + 3
        assert np.array_equal(out, padded[y : y + 5, x : x + 7])


def test_each_side_has_a_margin_of_its_own() -> None:
    places = drawn(RandomCrop(10, padding=(1, 2, 3, 4)), 10, 10)
    assert (places["x"].min(), places["x"].max()) == (-1, 3)
    assert (places["y"].min(), places["y"].max()) == (-2, 4)


def test_the_padding_has_a_colour() -> None:
    crop = RandomCrop(4, fill=(1, 2, 3))
    out = np.empty((4, 4, 3), np.uint8)
    crop.apply(np.zeros((1, 1, 3), np.uint8), out, drawn(crop, 1, 1, 1)[0])
    assert (out.reshape(-1, 3) == (1, 2, 3)).all(axis=1).sum() == 15


def test_upstream_pads_both_sides_by_what_the_shorter_one_lacks() -> None:
    places = drawn(RandomCrop((10, 32), compat="upstream"), 40, 20)
    assert (places["y"].min(), places["y"].max()) == (-12, 42)
    assert (places["x"].min(), places["x"].max()) == (-12, 0)


def test_a_colour_of_other_channels_is_refused() -> None:
    with pytest.raises(PlanError, match=r"fill \[1, 2\] is for 2 channel\(s\)"):
        RandomCrop(4, fill=(1, 2)).out_spec(ImageSpec(9, 9, 3))
