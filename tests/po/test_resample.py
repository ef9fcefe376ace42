from fractions import Fraction
from math import floor

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers, sampled_from
from PIL import Image

from dtsflow.po.geometry import resample

side = integers(1, 40)


def noise(height: int, width: int, channels: int) -> npt.NDArray[np.uint8]:
    rng = np.random.default_rng((height, width, channels))
    return rng.integers(0, 256, (height, width, channels), np.uint8)


def resampled(
    image: npt.NDArray[np.uint8], height: int, width: int, *, antialias: bool
) -> npt.NDArray[np.uint8]:
    out = np.full((height, width, image.shape[2]), 0xCC, np.uint8)
    resample(image, out, antialias=antialias)
    return out


def place(i: int, size: int, out_size: int) -> Fraction:
    centre = (i + Fraction(1, 2)) * size / out_size - Fraction(1, 2)
    return min(max(centre, Fraction(0)), Fraction(size - 1))


def by_definition(image: npt.NDArray[np.uint8], height: int, width: int) -> npt.NDArray[np.uint8]:
    """The definition in Python's whole numbers and fractions, a pixel at a time."""
    out = np.empty((height, width, image.shape[2]), np.uint8)
    pixels = image.tolist()

    def taps(i: int, size: int, out_size: int) -> list[tuple[int, int]]:
        point = place(i, size, out_size)
        low = floor(point)
        weight = floor((point - low) * 2048 + Fraction(1, 2))
        return [(low, 2048 - weight), (min(low + 1, size - 1), weight)]

    for i in range(height):
        for j in range(width):
            for c in range(image.shape[2]):
                total = sum(
                    v * h * pixels[y][x][c]
                    for y, v in taps(i, image.shape[0], height)
                    for x, h in taps(j, image.shape[1], width)
                )
                out[i, j, c] = (total + (1 << 21)) >> 22
    return out


@settings(deadline=None, max_examples=60)
@given(side, side, integers(1, 12), integers(1, 12), sampled_from([1, 3]))
def test_plain_is_its_definition(h: int, w: int, height: int, width: int, channels: int) -> None:
    image = noise(h, w, channels)
    expected = by_definition(image, height, width)
    assert np.array_equal(resampled(image, height, width, antialias=False), expected)


@settings(deadline=None)
@given(side, side, side, side)
def test_plain_is_within_one_of_float_bilinear(h: int, w: int, height: int, width: int) -> None:
    image = noise(h, w, 3)
    ys = [float(place(i, h, height)) for i in range(height)]
    xs = [float(place(j, w, width)) for j in range(width)]
    rows = np.array(
        [[[np.interp(y, range(h), image[:, x, c]) for c in range(3)] for x in range(w)] for y in ys]
    )
    exact = np.array(
        [[np.interp(xs, range(w), rows[i, :, c]) for c in range(3)] for i in range(height)]
    )
    ours = resampled(image, height, width, antialias=False).transpose(0, 2, 1).astype(np.float64)
    assert np.abs(ours - exact).max() <= 1


@settings(deadline=None)
@given(side, side, side, side, sampled_from([1, 3]))
def test_antialiased_is_pillows(h: int, w: int, height: int, width: int, channels: int) -> None:
    image = noise(h, w, channels)
    plain = Image.fromarray(image[..., 0] if channels == 1 else image)
    expected = np.asarray(plain.resize((width, height), Image.Resampling.BILINEAR))
    ours = resampled(image, height, width, antialias=True)
    assert np.array_equal(ours, expected.reshape(ours.shape))


@pytest.mark.parametrize("antialias", [False, True])
def test_the_same_size_is_the_same_image(*, antialias: bool) -> None:
    image = noise(19, 23, 3)
    assert np.array_equal(resampled(image, 19, 23, antialias=antialias), image)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("shade", [0, 1, 254, 255])
def test_a_flat_image_stays_flat(shade: int, *, antialias: bool) -> None:
    image = np.full((100, 3, 3), shade, np.uint8)
    assert (resampled(image, 7, 50, antialias=antialias) == shade).all()


@pytest.mark.parametrize("antialias", [False, True])
def test_any_number_of_channels_is_scaled_channel_by_channel(*, antialias: bool) -> None:
    image = noise(9, 11, 5)
    whole = resampled(image, 4, 30, antialias=antialias)
    for c in range(5):
        alone = resampled(image[..., c : c + 1], 4, 30, antialias=antialias)
        assert np.array_equal(whole[..., c : c + 1], alone)
