import numpy as np
import pytest
from pydantic import ValidationError

from dtsflow.errors import PlanError
from dtsflow.po import Pad
from dtsflow.po.geometry import BORDERS, Border
from dtsflow.po.operation import Draws
from dtsflow.spec import ImageSpec

NONE = Draws(np.empty((1, 0), np.uint32))


@pytest.mark.parametrize("mode", BORDERS)
@pytest.mark.parametrize("shape", [(5, 7, 3), (1, 1, 1), (2, 3, 1)])
def test_it_is_numpys_pad(mode: Border, shape: tuple[int, int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    op = Pad((1, 2, 3, 4), padding_mode=mode)
    sizes = np.array([shape[:2]])
    params = op.draw(NONE, sizes)
    height, width = op.out_sizes(sizes, params)[0]
    out = np.empty((height, width, shape[2]), np.uint8)
    op.apply(image, out, params[0])
    expected = np.pad(image, ((2, 4), (1, 3), (0, 0)), mode)
    assert np.array_equal(out, expected)


def test_the_margin_has_the_colour_of_each_channel() -> None:
    op = Pad(1, fill=(7, 8, 9))
    out = np.empty((3, 3, 3), np.uint8)
    op.apply(np.zeros((1, 1, 3), np.uint8), out, op.draw(NONE, np.array([[1, 1]]))[0])
    assert (out[0] == (7, 8, 9)).all()
    assert (out[1, 1] == 0).all()


def test_what_is_known_of_the_size_grows() -> None:
    assert Pad((1, 2, 3, 4)).out_spec(ImageSpec(10, None, 3)) == ImageSpec(16, None, 3)
    assert Pad((1, 2)).out_spec(ImageSpec(None, 10, 1)) == ImageSpec(None, 12, 1)


def test_a_colour_of_other_channels_is_refused() -> None:
    with pytest.raises(PlanError, match=r"fill \[1, 2, 3\] is for 3 channel\(s\)"):
        Pad(2, fill=(1, 2, 3)).out_spec(ImageSpec(28, 28, 1))


@pytest.mark.parametrize(
    "options",
    [
        {"padding": -1},
        {"padding": (1, 2, 3)},
        {"padding": 1, "fill": 256},
        {"padding": 1, "fill": ()},
        {"padding": 1, "padding_mode": "wrap"},
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Pad(**options)  # type: ignore[arg-type]
