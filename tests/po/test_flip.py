import numpy as np
import pytest
from pydantic import ValidationError

from dtsflow.po import RandomHorizontalFlip, RandomVerticalFlip
from dtsflow.po.flip import FLIP
from dtsflow.po.operation import Draws
from dtsflow.spec import ImageSpec


def test_it_flips_where_the_draw_is_below_p() -> None:
    words = np.array([[0], [(1 << 31) - 1], [1 << 31], [0xFFFFFFFF]], np.uint32)
    params = RandomHorizontalFlip(0.5).draw(Draws(words), np.ones((4, 2), np.int64))
    assert params["flip"].tolist() == [True, True, False, False]


@pytest.mark.parametrize(("p", "flips"), [(0.0, False), (1.0, True)])
def test_never_and_always_are_exact(p: float, *, flips: bool) -> None:
    words = np.array([[0], [0xFFFFFFFF]], np.uint32)
    params = RandomHorizontalFlip(p).draw(Draws(words), np.ones((2, 2), np.int64))
    assert (params["flip"] == flips).all()


def test_left_becomes_right_or_all_stays() -> None:
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    op = RandomHorizontalFlip()
    for row, expected in zip(
        np.array([(True,), (False,)], FLIP), (image[:, ::-1], image), strict=True
    ):
        out = np.zeros((2, 2, 3), np.uint8)
        op.apply(image, out, row)
        assert np.array_equal(out, expected)


def test_sizes_and_specs_pass_through() -> None:
    op = RandomHorizontalFlip()
    sizes = np.array([[3, 4]])
    assert op.out_sizes(sizes, np.zeros(1, FLIP)).tolist() == [[3, 4]]
    assert op.out_spec(ImageSpec(None, 5, 3)) == ImageSpec(None, 5, 3)


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_what_is_no_probability_is_refused(p: float) -> None:
    with pytest.raises(ValidationError):
        RandomHorizontalFlip(p)


def test_top_becomes_bottom_where_the_draw_is_below_p() -> None:
    op = RandomVerticalFlip(0.25)
    words = np.array([[(1 << 30) - 1], [1 << 30]], np.uint32)
    rows = op.draw(Draws(words), np.ones((2, 2), np.int64))
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    for row, expected in zip(rows, (image[::-1], image), strict=True):
        out = np.zeros((2, 2, 3), np.uint8)
        op.apply(image, out, row)
        assert np.array_equal(out, expected)
    assert op.out_sizes(np.array([[3, 4]]), rows).tolist() == [[3, 4]]
    assert op.out_spec(ImageSpec(None, 5, 3)) == ImageSpec(None, 5, 3)


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_what_is_no_probability_is_refused_top_to_bottom_too(p: float) -> None:
    with pytest.raises(ValidationError):
        RandomVerticalFlip(p)
