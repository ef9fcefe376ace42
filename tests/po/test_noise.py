import numpy as np
import numpy.typing as npt
import pytest
from pydantic import ValidationError

from dtsflow.po.blur import GaussianNoise
from dtsflow.po.operation import Draws
from dtsflow.seed.address import philox4x32

Image = npt.NDArray[np.uint8]
GRAY = np.full((300, 301, 3), 128, np.uint8)


def noisy(noise: GaussianNoise, image: Image, key: tuple[int, int]) -> Image:
    row = noise.draw(Draws(np.array([key], np.uint32)), np.array([image.shape[:2]]))[0]
    out = np.empty_like(image)
    noise.apply(image, out, row)
    return out


def test_it_is_normal_with_its_mean_and_deviation() -> None:
    made = noisy(GaussianNoise(mean=5, sigma=20), GRAY, (1, 2)).astype(float) - 128
    assert abs(made.mean() - 5) < 0.15
    assert abs(made.std() - 20) < 0.15
    z = (made - 5) / 20
    assert abs((z**3).mean()) < 0.02
    assert abs((z**4).mean() - 3) < 0.06
    assert abs((np.abs(z) < 1).mean() - 0.683) < 0.025


def test_pixels_and_channels_are_independent() -> None:
    made = noisy(GaussianNoise(), GRAY, (3, 4)).astype(float) - 128
    made /= made.std()
    rows, columns, channels = (
        (made[1:] * made[:-1]).mean(),
        (made[:, 1:] * made[:, :-1]).mean(),
        (made[..., 1:] * made[..., :-1]).mean(),
    )
    assert max(abs(rows), abs(columns), abs(channels)) < 0.01


def test_samples_have_their_own() -> None:
    first = noisy(GaussianNoise(), GRAY, (3, 4)).astype(float) - 128
    for key in ((4, 4), (3, 5)):
        other = noisy(GaussianNoise(), GRAY, key).astype(float) - 128
        assert abs((first * other).mean()) < 0.02 * first.var()


def test_values_are_clipped_and_never_wrap() -> None:
    for value in (0, 255):
        image = np.full((50, 50, 1), value, np.uint8)
        made = noisy(GaussianNoise(sigma=30), image, (7, 7))
        assert (np.abs(made.astype(int) - value) < 150).all()
        assert 0.45 < (made == value).mean() < 0.56


def test_a_pixels_noise_has_the_address_that_is_documented() -> None:
    made = noisy(GaussianNoise(sigma=10), np.full((5, 9, 3), 100, np.uint8), (11, 12)).reshape(
        5, -1
    )
    row, byte = 3, 21
    words = philox4x32(np.array([[byte // 8, row, 0, 0]], np.uint32), (11, 12))[0]
    bits = int(words[byte % 8 // 2]) >> (16 * (byte % 2)) & 0xFFFF
    quantile = 0.5 + ((bits & 0x7FFF) + 0.5) / 65536
    below = (quantile if bits < 0x8000 else 1 - quantile) * 1_000_000
    normal = np.sort(np.random.default_rng(0).normal(size=1_000_000))[int(below)]
    assert abs(made[row, byte] - (100 + 10 * normal)) < 1


def test_without_deviation_it_adds_the_mean() -> None:
    assert (noisy(GaussianNoise(mean=-28, sigma=0), GRAY, (0, 0)) == 100).all()


def test_a_negative_deviation_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        GaussianNoise(sigma=-1)
