import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import integers
from PIL import Image
from pydantic import ValidationError

from dtsflow.po import Resize
from dtsflow.po.operation import Draws
from dtsflow.spec import ImageSpec

side = integers(1, 3000)
NONE = Draws(np.empty((1, 0), np.uint32))


def torchvision_size(height: int, width: int, size: int) -> list[int]:
    short, long = (width, height) if width <= height else (height, width)
    new_short, new_long = size, int(size * long / short)
    w, h = (new_short, new_long) if width <= height else (new_long, new_short)
    return [h, w]


def resize(
    resize: Resize, height: int, width: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    image = np.random.default_rng((height, width)).integers(0, 256, (height, width, 3), np.uint8)
    sizes = np.array([[height, width]])
    params = resize.draw(NONE, sizes)
    out = np.full((*resize.out_sizes(sizes, params)[0], 3), 0xCC, np.uint8)
    resize.apply(image, out, params[0])
    return out


@given(side, side, integers(1, 1000))
def test_short_is_torchvisions_size(height: int, width: int, size: int) -> None:
    op = Resize(size)
    sizes = np.array([[height, width]])
    h, w = torchvision_size(height, width, size)
    assert op.out_sizes(sizes, op.draw(NONE, sizes))[0].tolist() == [h, w]
    assert op.out_spec(ImageSpec(height, width, 3)) == ImageSpec(h, w, 3)


def test_short_of_images_that_differ_leaves_them_different() -> None:
    assert Resize(8).out_spec(ImageSpec(None, None, 3)) == ImageSpec(None, None, 3)


@pytest.mark.parametrize("size", [9, (9, 9)])
def test_exact_takes_a_square_or_both_sides(size: int | tuple[int, int]) -> None:
    assert Resize(size, fit="exact").out_spec(ImageSpec(None, None, 1)) == ImageSpec(9, 9, 1)


def test_exact_scales_the_whole_image() -> None:
    out = resize(Resize((6, 31), fit="exact"), 20, 17)
    image = np.random.default_rng((20, 17)).integers(0, 256, (20, 17, 3), np.uint8)
    expected = Image.fromarray(image).resize((31, 6), Image.Resampling.BILINEAR)
    assert np.array_equal(out, np.asarray(expected))


@pytest.mark.parametrize(
    ("height", "width", "box"), [(20, 17, (0, 1, 17, 18)), (7, 30, (11, 0, 18, 7))]
)
def test_square_scales_the_centred_square(
    height: int, width: int, box: tuple[int, int, int, int]
) -> None:
    out = resize(Resize(9, fit="square"), height, width)
    image = np.random.default_rng((height, width)).integers(0, 256, (height, width, 3), np.uint8)
    expected = Image.fromarray(image).crop(box).resize((9, 9), Image.Resampling.BILINEAR)
    assert np.array_equal(out, np.asarray(expected))


@pytest.mark.parametrize("fit", ["short", "square"])
def test_two_numbers_are_refused_where_one_is_meant(fit: str) -> None:
    with pytest.raises(ValidationError, match=r"takes one number and size is \[8, 9\]"):
        Resize((8, 9), fit=fit)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, -1, (3, 0), (1, 2, 3), "big"])
def test_a_size_that_is_none_is_refused(size: object) -> None:
    with pytest.raises(ValidationError):
        Resize(size, fit="exact")  # type: ignore[arg-type]
