from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import ValidationError

from dtsflow.po.blur import GaussianBlur, weights
from dtsflow.po.operation import Draws


def blurred(blur: GaussianBlur, image: npt.NDArray[np.uint8], word: int = 0) -> Any:
    row = blur.draw(Draws(np.array([[word]], np.uint32)), np.array([image.shape[:2]]))[0]
    out = np.empty_like(image)
    blur.apply(image, out, row)
    return out


def in_doubles(image: npt.NDArray[np.uint8], size: int, sigma: float) -> Any:
    """The blur as it is defined, with torchvision's kernel and borders."""
    reach = size // 2
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    kernel /= kernel.sum()
    padded = np.pad(image.astype(float), ((reach, reach), (reach, reach), (0, 0)), "reflect")
    rows = sum(w * padded[k : k + image.shape[0]] for k, w in enumerate(kernel))
    return sum(w * rows[:, k : k + image.shape[1]] for k, w in enumerate(kernel))


@pytest.mark.parametrize("size", [1, 3, 5, 23, 59])
@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 2.0, 8.0, 1000.0])
def test_it_is_the_gaussian_within_one(size: int, sigma: float) -> None:
    rng = np.random.default_rng(size)
    for low, high in ((0, 256), (0, 2), (250, 256)):
        image = rng.integers(low, high, (40, 33, 3), np.uint8)
        off = np.abs(blurred(GaussianBlur(size, sigma), image) - in_doubles(image, size, sigma))
        assert off.max() < 0.5 + 0.3


@pytest.mark.parametrize("value", [0, 1, 128, 255])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (2, 2), (30, 40)])
def test_what_has_one_value_keeps_it(value: int, shape: tuple[int, int]) -> None:
    image = np.full((*shape, 1), value, np.uint8)
    assert np.array_equal(blurred(GaussianBlur(23, 3.0), image), image)


def test_weights_are_symmetric_in_all_one_and_fall() -> None:
    sigmas = np.concatenate([np.geomspace(1e-3, 1e3, 500), [0.1, 1.0, 2.0]])
    for radius in (0, 1, 2, 11, 29):
        found = weights(sigmas, radius).astype(int)
        assert found.shape == (503, radius + 1)
        assert (found[:, 0] + 2 * found[:, 1:].sum(axis=1) == 1 << 14).all()
        assert (found >= 0).all()
        assert (np.diff(found[:, 1:], axis=1) <= 0).all()


def test_a_tiny_sigma_changes_nothing() -> None:
    image = np.random.default_rng(0).integers(0, 256, (9, 9, 3), np.uint8)
    assert np.array_equal(blurred(GaussianBlur(5, 0.001), image), image)


def test_sigma_is_uniform_in_its_range() -> None:
    blur = GaussianBlur(3, sigma=(0.5, 1.5))
    words = np.random.default_rng(0).integers(0, 2**32, (4000, 1), np.uint32)
    middle = blur.draw(Draws(words), np.ones((4000, 2), np.int64))["weights"][:, 0] / 2**14
    # The middle's weight w of three says sigma: (1 - w) / 2w = exp(-1 / 2 sigma^2).
    sigma = np.sqrt(-0.5 / np.log((1 - middle) / (2 * middle)))
    assert 0.499 < sigma.min() < 0.51
    assert 1.49 < sigma.max() < 1.501
    assert abs(sigma.mean() - 1.0) < 0.02
    assert abs(sigma.std() - 12**-0.5) < 0.01


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel_size": 4}, "kernel_size is 4.*Give 3 or 5"),
        ({"kernel_size": 61}, "less than or equal to 59"),
        ({"kernel_size": -1}, "greater than or equal to 1"),
        ({"kernel_size": 3, "sigma": 0}, "greater than or equal to 0.001"),
        ({"kernel_size": 3, "sigma": (2.0, 0.1)}, "sigma goes from 2.0 to 0.1"),
    ],
)
def test_a_blur_that_makes_no_sense_is_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        GaussianBlur(**settings)
