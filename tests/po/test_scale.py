import math

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from pydantic import ValidationError

from dtsflow.po import RandomScale
from dtsflow.po.operation import Params
from dtsflow.po.resize import SCALED
from dtsflow.seed.draws import operation_draws
from dtsflow.spec import ImageSpec

Pixels = npt.NDArray[np.uint8]


def chosen(op: RandomScale, count: int, height: int, width: int) -> Params:
    draws = operation_draws(
        seed=2, ids=np.arange(count), epoch=0, phase=0, view=0, words=[op.words]
    )[0]
    return op.draw(draws, np.full((count, 2), (height, width)))


def framed(image: Pixels, height: int, width: int) -> Pixels:
    """What upstream describes: scale, then the centre, or zeros around."""
    frame_height, frame_width, _ = image.shape
    scaled = np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))
    out = np.zeros_like(image)
    h, w = min(height, frame_height), min(width, frame_width)
    y, x = (height - h) // 2, (width - w) // 2
    top, left = (frame_height - h) // 2, (frame_width - w) // 2
    out[top : top + h, left : left + w] = scaled[y : y + h, x : x + w]
    return out


@pytest.mark.parametrize(
    ("height", "width"), [(9, 11), (8, 10), (5, 4), (12, 16), (13, 3), (6, 17), (1, 1)]
)
def test_the_picture_is_scaled_in_the_middle_of_its_frame(height: int, width: int) -> None:
    image = np.random.default_rng(0).integers(1, 256, (9, 11, 3), np.uint8)
    out = np.full_like(image, 0xCC)
    RandomScale(1, 1).apply(image, out, np.array([(height, width, 1)], SCALED)[0])
    assert np.array_equal(out, framed(image, height, width))


def test_both_factors_are_uniform_and_independent() -> None:
    rows = chosen(RandomScale(0.5, 1.5), 20_000, 10_000, 20_000)
    high, wide = rows["h"] / 10_000, rows["w"] / 20_000
    for factor in (high, wide):
        ranked = np.sort(factor) - 0.5
        gap = np.abs(ranked - (np.arange(20_000) + 0.5) / 20_000).max()
        assert gap < 1.95 / math.sqrt(20_000)
    assert abs(np.corrcoef(high, wide)[0, 1]) < 0.03


def test_at_least_one_pixel_is_left() -> None:
    rows = chosen(RandomScale(0.01, 0.1), 50, 3, 1)
    assert set(rows["h"]) == {1}
    assert set(rows["w"]) == {1}


def test_one_factor_alone_is_allowed_and_changes_no_size() -> None:
    op = RandomScale(2, 2)
    assert chosen(op, 3, 7, 5)[["h", "w"]].tolist() == [(14, 10)] * 3
    assert op.out_sizes(np.array([[7, 5]]), chosen(op, 1, 7, 5)).tolist() == [[7, 5]]
    assert op.out_spec(ImageSpec(None, 5, 3)) == ImageSpec(None, 5, 3)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [(1.2, 0.8, "min_ratio is 1.2 and max_ratio 0.8"), (0, 1, "greater than 0")],
)
def test_ranges_that_make_no_sense_are_refused(low: float, high: float, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RandomScale(low, high)
