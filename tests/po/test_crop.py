import math
import random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers, lists, tuples
from PIL import Image
from pydantic import ValidationError

from dtsflow.po import CenterCrop, RandomResizedCrop
from dtsflow.po.operation import Draws
from dtsflow.seed.draws import operation_draws
from dtsflow.seed.exact import exp, log
from dtsflow.spec import ImageSpec

Window = tuple[int, int, int, int]
NONE = Draws(np.empty((1, 0), np.uint32))
sizes_of = lists(tuples(integers(1, 2500), integers(1, 2500)), min_size=1, max_size=8)


def draws(count: int, words: int, seed: int = 0) -> Draws:
    return operation_draws(
        seed=seed, ids=np.arange(count), epoch=0, phase=0, view=0, words=[words]
    )[0]


def one_by_one(op: RandomResizedCrop, words: list[int], height: int, width: int) -> Window:
    """torchvision's get_params, on the words of one sample."""
    area = height * width
    low, high = log(op.ratio[0]), log(op.ratio[1])
    for t in range(10):
        u_area, u_ratio = ((w >> 8) / 2**24 for w in words[4 * t : 4 * t + 2])
        target = area * (op.scale[0] + u_area * (op.scale[1] - op.scale[0]))
        ratio = float(exp(low + u_ratio * (high - low)))
        w = round(math.sqrt(target * ratio))
        h = round(math.sqrt(target / ratio))
        if 0 < w <= width and 0 < h <= height:
            x = words[4 * t + 2] * (width - w + 1) >> 32
            y = words[4 * t + 3] * (height - h + 1) >> 32
            return y, x, h, w
    h, w = height, width
    if width / height < op.ratio[0]:
        h = round(w / op.ratio[0])
    elif width / height > op.ratio[1]:
        w = round(h * op.ratio[1])
    return (height - h) // 2, (width - w) // 2, h, w


@settings(deadline=None)
@given(sizes_of, integers(0, 2**64 - 1))
def test_windows_are_what_torchvision_computes_sample_by_sample(
    sizes: list[tuple[int, int]], seed: int
) -> None:
    op = RandomResizedCrop(224)
    drawn = draws(len(sizes), op.words, seed)
    rows = op.draw(drawn, np.array(sizes)).tolist()
    words = drawn.words.tolist()
    assert rows == [one_by_one(op, w, *size) for w, size in zip(words, sizes, strict=True)]


@given(sizes_of, integers(0, 1000))
def test_every_window_lies_inside_its_image(sizes: list[tuple[int, int]], seed: int) -> None:
    op = RandomResizedCrop(8, scale=(1e-4, 1), ratio=(0.01, 100))
    rows = op.draw(draws(len(sizes), op.words, seed), np.array(sizes))
    for (y, x, h, w), (height, width) in zip(rows.tolist(), sizes, strict=True):
        assert 0 <= y < y + h <= height
        assert 0 <= x < x + w <= width


def kolmogorov(values: npt.NDArray[np.float64], low: float, high: float) -> float:
    ranked = np.sort((values - low) / (high - low))
    return float(np.abs(ranked - (np.arange(len(ranked)) + 0.5) / len(ranked)).max())


def test_area_is_uniform_and_ratio_log_uniform_where_every_attempt_fits() -> None:
    op = RandomResizedCrop(8, scale=(0.08, 0.5))
    count = 40_000
    rows = op.draw(draws(count, op.words), np.full((count, 2), 4000))
    area = rows["h"].astype(float) * rows["w"] / 4000**2
    ratio = np.log(rows["w"] / rows["h"])
    bound = 1.95 / math.sqrt(count)  # exceeded once in a thousand times by chance
    assert kolmogorov(area, 0.08, 0.5) < bound
    assert kolmogorov(ratio, math.log(3 / 4), math.log(4 / 3)) < bound
    assert abs(np.corrcoef(area, ratio)[0, 1]) < 0.02
    assert kolmogorov((rows["x"] + 0.5) / (4001 - rows["w"]), 0, 1) < bound
    assert kolmogorov((rows["y"] + 0.5) / (4001 - rows["h"]), 0, 1) < bound


def test_accepted_windows_follow_an_independent_simulation() -> None:
    """Retries favour what fits, so area is not uniform: compare with a plain loop."""
    op = RandomResizedCrop(224)
    count, height, width = 20_000, 375, 500
    rows = op.draw(draws(count, op.words), np.full((count, 2), (height, width)))
    rng = random.Random(5)
    other = np.array(
        [
            one_by_one(op, [rng.getrandbits(32) for _ in range(40)], height, width)
            for _ in range(count)
        ]
    )
    for ours, theirs in zip(("y", "x", "h", "w"), other.T, strict=True):
        spread = theirs.std() / math.sqrt(count)
        assert abs(rows[ours].mean() - theirs.mean()) < 5 * spread
        assert rows[ours].std() == pytest.approx(theirs.std(), rel=0.03)


@pytest.mark.parametrize(
    ("size", "window"), [((10, 300), (0, 143, 10, 13)), ((300, 10), (143, 0, 13, 10))]
)
def test_where_nothing_fits_it_is_the_centred_window_of_the_nearest_ratio(
    size: tuple[int, int], window: Window
) -> None:
    op = RandomResizedCrop(8, scale=(1.0, 1.0))
    assert op.draw(draws(1, op.words), np.array([size])).tolist() == [window]


def test_the_window_is_cut_and_then_scaled_as_pillow_does() -> None:
    image = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    op = RandomResizedCrop((24, 30))
    rows = op.draw(draws(20, op.words), np.full((20, 2), (60, 80)))
    for row in rows:
        y, x, h, w = row.item()
        out = np.full((24, 30, 3), 0xCC, np.uint8)
        op.apply(image, out, row)
        cut = Image.fromarray(image).crop((x, y, x + w, y + h))
        expected = cut.resize((30, 24), Image.Resampling.BILINEAR)
        assert np.array_equal(out, np.asarray(expected))


@pytest.mark.parametrize("antialias", [False, True])
def test_one_pixel_is_enough(*, antialias: bool) -> None:
    op = RandomResizedCrop(5, antialias=antialias)
    row = op.draw(draws(1, op.words), np.array([[1, 1]]))[0]
    out = np.zeros((5, 5, 3), np.uint8)
    op.apply(np.full((1, 1, 3), 77, np.uint8), out, row)
    assert (out == 77).all()


def test_its_spec_is_fixed() -> None:
    assert RandomResizedCrop(5).out_spec(ImageSpec(None, None, 3)) == ImageSpec(5, 5, 3)
    assert CenterCrop((4, 5)).out_spec(ImageSpec(None, None, 1)) == ImageSpec(4, 5, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": (0.5, 0.1)}, "scale goes from 0.5 to 0.1"),
        ({"ratio": (2, 1)}, "ratio goes from 2.0 to 1.0"),
        ({"scale": (0, 1)}, "greater than 0"),
        ({"scale": (0.5, 1.5)}, "less than or equal to 1"),
        ({"ratio": (0, 1)}, "greater than or equal to 0.001"),
        ({"size": 0}, "greater than 0"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RandomResizedCrop(**{"size": 8, **options})  # type: ignore[arg-type]


def torchvision_center_crop(
    image: npt.NDArray[np.uint8], height: int, width: int
) -> npt.NDArray[np.uint8]:
    h, w = image.shape[:2]
    if width > w or height > h:
        left = (width - w) // 2 if width > w else 0
        top = (height - h) // 2 if height > h else 0
        right = (width - w + 1) // 2 if width > w else 0
        bottom = (height - h + 1) // 2 if height > h else 0
        image = np.pad(image, ((top, bottom), (left, right), (0, 0)))
        h, w = image.shape[:2]
    y = round((h - height) / 2.0)
    x = round((w - width) / 2.0)
    return image[y : y + height, x : x + width]


@given(integers(1, 20), integers(1, 20), integers(1, 20), integers(1, 20))
def test_center_crop_is_torchvisions(h: int, w: int, height: int, width: int) -> None:
    image = np.random.default_rng((h, w)).integers(1, 256, (h, w, 3), np.uint8)
    op = CenterCrop((height, width))
    row = op.draw(NONE, np.array([[h, w]]))[0]
    out = np.full((height, width, 3), 0xCC, np.uint8)
    op.apply(image, out, row)
    assert np.array_equal(out, torchvision_center_crop(image, height, width))


@given(integers(1, 20), integers(1, 20), integers(1, 20))
def test_upstreams_center_crop_takes_the_first_of_two_places(h: int, w: int, side: int) -> None:
    row = CenterCrop(side, compat="upstream").draw(NONE, np.array([[h, w]]))[0]
    for place, of in ((row["y"], h), (row["x"], w)):
        inside, outside = min(of, side), side - min(of, side)
        assert place == (of - inside) // 2 - outside // 2
