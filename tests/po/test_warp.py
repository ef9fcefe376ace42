"""Sampling along affine maps, against exact fractions and against Pillow."""

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers, sampled_from
from PIL import Image

from dtsflow.po.affine import MAP, POINT_BITS, SAMPLINGS, Sampling, backwards, maps, warp
from dtsflow.po.operation import Params

Pixels = npt.NDArray[np.uint8]
ONE = 1 << POINT_BITS


def a_map(*values: float) -> Params:
    """A map of (xx, xy, x0, yx, yy, y0) in pixels."""
    return np.array([(*(round(value * ONE) for value in values), 0, 0)], MAP)


def warped(
    image: Pixels, params: Params, *, sampling: Sampling = "nearest", fill: int = 0
) -> Pixels:
    out = np.full(image.shape, 0xCC, np.uint8)
    params["sampling"], params["fill"] = SAMPLINGS.index(sampling), fill
    warp(image, out, params[0])
    return out


def one_pixel(image: Pixels, x: Fraction, y: Fraction, sampling: Sampling) -> list[int]:
    """The definition in exact fractions: the point is (x, y), inside the image."""
    rows, columns, _ = image.shape
    if sampling == "nearest":
        return [int(value) for value in image[math.floor(y), math.floor(x)]]
    half = Fraction(1, 2) if sampling == "bilinear" else Fraction(0)
    x, y = x - half, y - half
    right = Fraction(math.floor((x - math.floor(x)) * 2048 + Fraction(1, 2)), 2048)
    below = Fraction(math.floor((y - math.floor(y)) * 2048 + Fraction(1, 2)), 2048)
    total = np.full(image.shape[2], Fraction(0), object)
    for dy, down in ((0, 1 - below), (1, below)):
        for dx, across in ((0, 1 - right), (1, right)):
            row = min(max(math.floor(y) + dy, 0), rows - 1)
            column = min(max(math.floor(x) + dx, 0), columns - 1)
            total = total + image[row, column].astype(object) * (down * across)
    return [math.floor(value + Fraction(1, 2)) for value in total]


@settings(deadline=None, max_examples=60)
@given(integers(1, 7), integers(1, 7), integers(0, 10**9), sampled_from(SAMPLINGS))
def test_every_pixel_is_the_definition_in_fractions(
    rows: int, columns: int, seed: int, sampling: Sampling
) -> None:
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (rows, columns, 3), np.uint8)
    params = a_map(*rng.uniform(-2, 2, 2), rng.uniform(-3, 9), *rng.uniform(-2, 2, 2), 1.25)
    made = warped(image, params, sampling=sampling, fill=9)
    xx, xy, x0, yx, yy, y0 = (Fraction(value, ONE) for value in params[0].item()[:6])
    for y, x in np.ndindex(rows, columns):
        at = (xx * x + xy * y + x0, yx * x + yy * y + y0)
        inside = 0 <= at[0] < columns and 0 <= at[1] < rows
        wanted = one_pixel(image, *at, sampling) if inside else [9, 9, 9]
        assert made[y, x].tolist() == wanted, (y, x)


def turn(degrees: float, size: tuple[int, int]) -> tuple[Params, tuple[float, ...]]:
    """A clockwise turn about the centre: our map, and Pillow's six numbers."""
    sizes = np.array([size])
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    linear = (cosine, sine, -sine, cosine)
    params = maps(tuple(np.array([value]) for value in linear), sizes)  # type: ignore[arg-type]
    cy, cx = size[0] / 2, size[1] / 2
    return params, (
        *linear[:2],
        cx - linear[0] * cx - linear[1] * cy,
        *linear[2:],
        cy - linear[2] * cx - linear[3] * cy,
    )


def smooth(rows: int, columns: int) -> Pixels:
    y, x = np.mgrid[0:rows, 0:columns]
    planes = [np.sin(x / 19 + c) + np.cos(y / 23 - c) for c in range(3)]
    return np.asarray(np.rint(np.stack(planes, 2) * 60 + 128), np.uint8)


@pytest.mark.parametrize("degrees", [-170.3, -33.1, 4.7, 61.0, 119.9])
@pytest.mark.parametrize("size", [(60, 80), (41, 33), (1, 1), (300, 200)])
def test_nearest_is_pillows_but_where_a_point_lies_on_a_pixels_edge(
    degrees: float, size: tuple[int, int]
) -> None:
    image = np.random.default_rng(1).integers(1, 256, (*size, 3), np.uint8)
    params, numbers = turn(degrees, size)
    ours = warped(image, params)
    theirs = np.asarray(
        Image.fromarray(image).transform(size[::-1], Image.Transform.AFFINE, numbers)
    )
    y, x = np.nonzero((ours != theirs).any(axis=2))
    row = params[0]
    points = np.stack(
        [row["xx"] * x + row["xy"] * y + row["x0"], row["yx"] * x + row["yy"] * y + row["y0"]]
    )
    from_edge = np.abs(points / ONE - np.rint(points / ONE)).min(axis=0)
    # Pillow rounds each coefficient to 2^-16, and adds it once for each pixel.
    assert (from_edge <= (sum(size) + 2) * 2.0**-17).all()
    assert len(y) <= 0.01 * ours[..., 0].size


@pytest.mark.parametrize("degrees", [-170.3, -33.1, 4.7, 61.0])
def test_bilinear_is_pillows_to_one_level(degrees: float) -> None:
    image = smooth(120, 90)
    params, numbers = turn(degrees, (120, 90))
    ours = warped(image, params, sampling="bilinear")
    theirs = np.asarray(
        Image.fromarray(image).transform(
            (90, 120), Image.Transform.AFFINE, numbers, Image.Resampling.BILINEAR
        )
    )
    assert np.abs(ours.astype(int) - theirs).max() <= 1


@pytest.mark.parametrize("sampling", ["nearest", "bilinear"])
@pytest.mark.parametrize("quarters", range(4))
def test_quarter_turns_of_a_square_move_pixels_whole(sampling: Sampling, quarters: int) -> None:
    image = np.random.default_rng(0).integers(0, 256, (7, 7, 3), np.uint8)
    angle = np.array([90.0 * quarters])
    nought, one = np.zeros(1), np.ones(1)
    params = maps(backwards(angle, one, (nought, nought)), np.array([[7, 7]]))
    assert np.array_equal(warped(image, params, sampling=sampling), np.rot90(image, -quarters))


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("size", [(1, 1), (4, 9)])
def test_the_map_that_changes_nothing_changes_nothing(
    sampling: Sampling, size: tuple[int, int]
) -> None:
    image = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    one, nought = np.ones(1), np.zeros(1)
    params = maps((one, nought, nought, one), np.array([size]), sampling=sampling)
    assert np.array_equal(warped(image, params, sampling=sampling), image)


def test_a_shift_moves_the_picture_right_and_down() -> None:
    image = np.random.default_rng(0).integers(1, 256, (6, 8, 3), np.uint8)
    one, nought = np.ones(1), np.zeros(1)
    shift = (np.array([3.0]), np.array([-2.0]))
    params = maps((one, nought, nought, one), np.array([[6, 8]]), shift=shift)
    wanted = np.zeros_like(image)
    wanted[:4, 3:] = image[2:, :5]
    assert np.array_equal(warped(image, params), wanted)
