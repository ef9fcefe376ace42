from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from dtsflow.po.erasing import RandomErasing
from dtsflow.po.operation import Draws, Params


def drawn(erasing: RandomErasing, height: int, width: int, count: int = 20_000) -> Params:
    words = np.random.default_rng(0).integers(0, 2**32, (count, erasing.words), np.uint32)
    return erasing.draw(Draws(words), np.full((count, 2), (height, width)))


def test_boxes_follow_the_documented_distribution() -> None:
    boxes = drawn(RandomErasing(1, scale=(0.02, 0.2), ratio=(0.5, 2.0)), 1000, 1200)
    h, w = boxes["h"].astype(float), boxes["w"].astype(float)
    area, ratio = h * w / 1.2e6, np.log(h / w)
    assert 0.0195 < area.min() < 0.021
    assert 0.199 < area.max() < 0.2005
    assert abs(area.mean() - 0.11) < 0.001
    assert np.abs(ratio).max() < np.log(2) + 0.01
    assert abs(ratio.mean()) < 0.01
    assert abs(ratio.std() - 2 * np.log(2) / 12**0.5) < 0.01
    for start, size, side in ((boxes["y"], h, 1000), (boxes["x"], w, 1200)):
        place = start / (side - size)
        assert 0 <= place.min() < 0.001
        assert 0.999 < place.max() <= 1
        assert abs(place.mean() - 0.5) < 0.01


def test_it_happens_with_its_probability() -> None:
    assert abs((drawn(RandomErasing(0.25), 100, 100)["h"] > 0).mean() - 0.25) < 0.012
    assert not drawn(RandomErasing(0), 100, 100)["h"].any()


def test_a_box_is_smaller_than_the_image_and_never_empty() -> None:
    for height, width in ((1, 1), (1, 9), (2, 2), (3, 50), (50, 3)):
        boxes = drawn(RandomErasing(1, scale=(0.01, 1), ratio=(0.1, 10)), height, width, 3000)
        erased = boxes["h"] > 0
        assert np.array_equal(erased, boxes["w"] > 0)
        assert erased.any() == (min(height, width) > 1)
        assert (boxes["h"] < height).all()
        assert (boxes["w"] < width).all()
        assert (boxes["y"] + boxes["h"] <= height).all()
        assert (boxes["x"] + boxes["w"] <= width).all()


def test_a_failed_attempt_is_drawn_anew() -> None:
    """One attempt fits where the ratio is below 99.5^2 / 21,000: in 19 of 100."""
    boxes = drawn(RandomErasing(1, scale=(0.3, 0.3), ratio=(0.3, 3.3)), 100, 700)
    fits = np.log(99.5**2 / 21_000 / 0.3) / np.log(11)
    assert abs((boxes["h"] > 0).mean() - (1 - (1 - fits) ** 10)) < 0.01
    assert boxes["h"].max() == 99


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p": 1.5}, "less than or equal to 1"),
        ({"scale": (0.0, 0.3)}, "greater than 0"),
        ({"scale": (0.3, 0.2)}, "scale goes from 0.3 to 0.2"),
        ({"ratio": (3.3, 0.3)}, "ratio goes from 3.3 to 0.3"),
    ],
)
def test_boxes_that_make_no_sense_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RandomErasing(**settings)
