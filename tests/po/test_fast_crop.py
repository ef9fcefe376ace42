import math

import numpy as np
import pytest
from pydantic import ValidationError

from dtsflow.po import FastRandomResizedCrop, RandomResizedCrop
from dtsflow.po.operation import Params
from dtsflow.seed.draws import operation_draws


def chosen(op: RandomResizedCrop, count: int, height: int, width: int) -> Params:
    draws = operation_draws(
        seed=2, ids=np.arange(count), epoch=0, phase=0, view=0, words=[op.words]
    )[0]
    return op.draw(draws, np.full((count, 2), (height, width)))


def test_area_and_ratio_are_log_uniform_where_every_attempt_fits() -> None:
    count = 20_000
    rows = chosen(FastRandomResizedCrop(8, scale=(0.01, 0.5)), count, 5000, 5000)
    area = np.log(rows["h"].astype(float) * rows["w"] / 5000**2)
    ratio = np.log(rows["w"] / rows["h"])
    for values, low, high in ((area, math.log(0.01), math.log(0.5)), (ratio, *LOG_RATIOS)):
        ranked = np.sort((values - low) / (high - low))
        gap = np.abs(ranked - (np.arange(count) + 0.5) / count).max()
        assert gap < 1.95 / math.sqrt(count)
    assert abs(np.corrcoef(area, ratio)[0, 1]) < 0.03


LOG_RATIOS = (math.log(3 / 4), math.log(4 / 3))


def test_its_windows_are_smaller_than_the_plain_ones_and_inside() -> None:
    fast, plain = (
        chosen(op, 4000, 300, 400) for op in (FastRandomResizedCrop(8), RandomResizedCrop(8))
    )
    assert (fast["h"] * fast["w"]).mean() < 0.8 * (plain["h"] * plain["w"]).mean()
    assert (fast["y"] >= 0).all()
    assert (fast["y"] + fast["h"] <= 300).all()
    assert (fast["x"] >= 0).all()
    assert (fast["x"] + fast["w"] <= 400).all()


def test_where_nothing_fits_it_falls_back_as_the_plain_one() -> None:
    options = {"size": 8, "scale": (1.0, 1.0)}
    for size in ((10, 300), (300, 10), (1, 1)):
        rows = [
            chosen(op, 1, *size).tolist()
            for op in (FastRandomResizedCrop(**options), RandomResizedCrop(**options))  # type: ignore[arg-type]
        ]
        assert rows[0] == rows[1]


def test_scales_too_small_for_an_exact_logarithm_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"greater than or equal to 0\.001"):
        FastRandomResizedCrop(8, scale=(0.0001, 1))
