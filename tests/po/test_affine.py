import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats
from PIL import Image
from pydantic import ValidationError

from dtsflow.errors import PlanError
from dtsflow.po import RandomAffine, RandomRotation
from dtsflow.po.affine import POINT_BITS, Floats, backwards
from dtsflow.po.operation import Draws, Params
from dtsflow.seed.draws import operation_draws
from dtsflow.spec import ImageSpec

ONE = 1 << POINT_BITS


def draws(count: int, words: int) -> Draws:
    return operation_draws(seed=3, ids=np.arange(count), epoch=0, phase=0, view=0, words=[words])[0]


def chosen(op: RandomRotation | RandomAffine, count: int, size: tuple[int, int]) -> Params:
    return op.draw(draws(count, op.words), np.full((count, 2), size))


def column(params: Params, name: str) -> Floats:
    return np.asarray(params[name] / ONE, np.float64)


def kolmogorov(values: Floats, low: float, high: float) -> float:
    ranked = np.sort((values - low) / (high - low))
    return float(np.abs(ranked - (np.arange(len(ranked)) + 0.5) / len(ranked)).max())


BOUND = 1.95 / math.sqrt(20_000)  # exceeded once in a thousand times by chance


def test_angles_are_uniform_between_their_ends() -> None:
    for op, low, high in ((RandomRotation(40), -40, 40), (RandomRotation((10, 170)), 10, 170)):
        params = chosen(op, 20_000, (50, 70))
        angle = np.degrees(np.arctan2(column(params, "yx"), column(params, "xx")))
        assert kolmogorov(angle, low, high) < BOUND
        assert low <= angle.min() < low + 0.1
        assert high - 0.1 < angle.max() < high


def test_a_rotation_goes_counter_clockwise_as_pillows() -> None:
    image = np.random.default_rng(0).integers(0, 256, (9, 9, 3), np.uint8)
    for degrees in (90.0, 180.0, -90.0):
        op = RandomRotation((degrees, degrees))
        out = np.empty_like(image)
        op.apply(image, out, chosen(op, 1, (9, 9))[0])
        assert np.array_equal(out, np.asarray(Image.fromarray(image).rotate(degrees)))


def upstream_pixel(image: Floats, degrees: float, x: int, y: int) -> float | None:
    """Section 4.3 of the upstream facts, in floating point."""
    rows, columns = image.shape
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    cx, cy = columns / 2, rows / 2
    at_x = cosine * (x - cx) - sine * (y - cy) + cx
    at_y = sine * (x - cx) + cosine * (y - cy) + cy
    if not (0 <= at_x < columns and 0 <= at_y < rows):
        return None
    left, top = int(at_x), int(at_y)
    right, below = min(left + 1, columns - 1), min(top + 1, rows - 1)
    u, v = at_x - left, at_y - top
    upper = image[top, left] * (1 - u) + image[top, right] * u
    lower = image[below, left] * (1 - u) + image[below, right] * u
    return float(upper * (1 - v) + lower * v)


def test_upstreams_rotation_has_its_centre_half_a_pixel_off() -> None:
    image = np.random.default_rng(0).integers(0, 256, (13, 17, 1), np.uint8)
    op = RandomRotation((21.5, 21.5), interpolation="bilinear", fill=255, compat="upstream")
    out = np.empty_like(image)
    op.apply(image, out, chosen(op, 1, (13, 17))[0])
    for y, x in np.ndindex(13, 17):
        wanted = upstream_pixel(image[..., 0].astype(float), 21.5, x, y)
        assert abs(int(out[y, x, 0]) - (255 if wanted is None else wanted)) < 0.8


def test_upstream_leaves_the_smallest_angles_alone() -> None:
    op = RandomRotation(0.0499, interpolation="bilinear", compat="upstream")
    assert set(column(chosen(op, 50, (8, 8)), "xy")) == {0.0}
    assert len(set(column(chosen(RandomRotation(0.0499), 50, (8, 8)), "xy"))) > 1


def torchvisions(
    angle: float, factor: float, shear: tuple[float, float]
) -> tuple[float, float, float, float]:
    """The inverse of turn(angle) times shear times factor, from the forward matrix."""
    a, sx, sy = (math.radians(value) for value in (angle, *shear))
    turn = np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
    along_y = np.array([[1, 0], [-math.tan(sy), 1]])
    along_x = np.array([[1, -math.tan(sx)], [0, 1]])
    # RSS without scale, as its comment has it: R(a) * SHy(sy) * SHx(sx).
    xx, xy, yx, yy = np.linalg.inv(factor * turn @ along_y @ along_x).ravel().tolist()
    return xx, xy, yx, yy


@given(floats(-360, 360), floats(0.1, 10), floats(-60, 60), floats(-60, 60))
def test_the_map_undoes_the_product_of_a_turn_and_two_shears(
    angle: float, factor: float, sx: float, sy: float
) -> None:
    ours = backwards(np.array([angle]), np.array([factor]), (np.array([sx]), np.array([sy])))
    made = np.array([float(value[0]) for value in ours])
    assert np.allclose(made, torchvisions(angle, factor, (sx, sy)), rtol=1e-9, atol=1e-9)


def test_moves_are_whole_and_uniform() -> None:
    op = RandomAffine(0, translate=(0.1, 0.25))
    params = chosen(op, 20_000, (80, 200))
    right = 0.5 - column(params, "x0")
    down = 0.5 - column(params, "y0")
    assert set(right) == set(range(-20, 21))
    assert set(down) == set(range(-20, 21))
    counts = np.bincount((right + 20).astype(int))
    assert abs(counts[1:-1] - 500).max() < 5 * math.sqrt(500)  # half of it at both ends
    assert abs(counts[[0, -1]] - 250).max() < 5 * math.sqrt(250)
    assert abs(np.corrcoef(right, down)[0, 1]) < 0.03


def test_factors_and_shears_are_uniform() -> None:
    grown = column(chosen(RandomAffine(0, scale=(0.5, 2.0)), 20_000, (64, 64)), "xx")
    assert kolmogorov(1 / grown, 0.5, 2.0) < BOUND
    params = chosen(RandomAffine(0, shear=(-10, 30, 5, 40)), 20_000, (64, 64))
    along_y = np.degrees(np.arctan2(column(params, "yx"), column(params, "yy")))
    assert kolmogorov(along_y, 5, 40) < BOUND
    params = chosen(RandomAffine(0, shear=25), 20_000, (64, 64))
    along_x = np.degrees(np.arctan(column(params, "xy")))
    assert kolmogorov(along_x, -25, 25) < BOUND
    assert set(column(params, "yx")) == {0.0}


def test_it_is_pillows_transform_of_torchvisions_numbers() -> None:
    y, x = np.mgrid[0:70, 0:90]
    image = np.rint(np.stack([x, y, x + y], 2) * 1.5).astype(np.uint8)
    op = RandomAffine(50, (0.2, 0.2), (0.8, 1.3), (-20, 20, -20, 20), "bilinear", 77)
    for row in chosen(op, 12, (70, 90)):
        xx, xy, x0, yx, yy, y0 = (value / ONE for value in row.item()[:6])
        # Ours maps pixel numbers, Pillow's the centres of pixels.
        numbers = (xx, xy, x0 - (xx + xy) / 2, yx, yy, y0 - (yx + yy) / 2)
        theirs = Image.fromarray(image).transform(
            (90, 70),
            Image.Transform.AFFINE,
            numbers,
            Image.Resampling.BILINEAR,
            fillcolor=(77, 77, 77),
        )
        out = np.empty_like(image)
        op.apply(image, out, row)
        assert np.abs(out.astype(int) - np.asarray(theirs)).max() <= 1


def test_one_pixel_is_enough() -> None:
    for op in (RandomRotation(180), RandomAffine(180, scale=(0.5, 2))):
        out = np.zeros((1, 1, 3), np.uint8)
        for row in chosen(op, 20, (1, 1)):
            op.apply(np.full((1, 1, 3), 50, np.uint8), out, row)
            assert out.tolist() == [[[50, 50, 50]]]


def test_a_chunk_of_mixed_sizes_has_the_rows_of_each_alone() -> None:
    op = RandomAffine(90, (0.3, 0.3), (0.5, 2), 20)
    rng = random.Random(0)
    sizes = np.array([[rng.randrange(1, 400), rng.randrange(1, 400)] for _ in range(30)])
    drawn = draws(30, op.words)
    together = op.draw(drawn, sizes)
    for i in range(30):
        alone = op.draw(Draws(drawn.words[i : i + 1]), sizes[i : i + 1])
        assert alone.tobytes() == together[i : i + 1].tobytes()


def test_specs_and_sizes_pass_through_and_fill_is_checked() -> None:
    spec = ImageSpec(None, 9, 3)
    for op in (RandomRotation(10), RandomAffine(10)):
        assert op.out_spec(spec) == spec
        assert op.out_sizes(np.array([[3, 4]]), chosen(op, 1, (3, 4))).tolist() == [[3, 4]]
    with pytest.raises(PlanError, match=r"fill \[1, 2\] is for 2 channel"):
        RandomRotation(10, fill=(1, 2)).out_spec(spec)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degrees": -1}, "greater than or equal to 0"),
        ({"degrees": (30, 10)}, "degrees goes from 30.0 to 10.0"),
        ({"degrees": 400}, "less than or equal to 360"),
        ({"degrees": 5, "translate": (0, 1.5)}, "less than or equal to 1"),
        ({"degrees": 5, "scale": (0, 1)}, "greater than or equal to 0.01"),
        ({"degrees": 5, "scale": (2, 1)}, "scale goes from 2.0 to 1.0"),
        ({"degrees": 5, "shear": (0, 5, 9, 2)}, "shear goes from 9.0 to 2.0"),
        ({"degrees": 5, "shear": 90}, "less than or equal to 80"),
        ({"degrees": 5, "interpolation": "cubic"}, "'nearest' or 'bilinear'"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RandomAffine(**options)  # type: ignore[arg-type]


def test_upstreams_rotation_is_bilinear_or_refused() -> None:
    with pytest.raises(ValidationError, match="Say interpolation: bilinear"):
        RandomRotation(10, compat="upstream")
