import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis.strategies import booleans, integers, lists
from pydantic import ValidationError

from dtsflow.errors import PlanError
from dtsflow.po import CutMix, Mixup
from dtsflow.po.mixup import MIX, check_rows, pair, soft_labels, symmetric_beta
from dtsflow.po.operation import Draws, Params
from dtsflow.seed.draws import batch_draws
from dtsflow.tensor.dtype import DType, from_bfloat16, to_bfloat16

FLOATS = (DType.FP32, DType.FP16, DType.BF16)


def draws(count: int, words: int, seed: int = 5) -> Draws:
    return batch_draws(seed=seed, step=3, epoch=1, phase=0, lanes=np.arange(count), words=words)


def row(share: float, window: tuple[int, int, int, int] = (0, 0, 0, 0)) -> Params:
    return np.array([(share, 0, *window)], MIX)


@given(lists(booleans(), min_size=1, max_size=20), integers(0, 2**32 - 1))
def test_every_valid_row_has_a_partner_of_its_own_and_no_other_row_has_one(
    valid: list[bool], shift: int
) -> None:
    mask = np.array(valid)
    partners = pair(mask, shift)
    alone = ~mask if mask.sum() > 1 else np.ones(len(mask), bool)
    rows = np.arange(len(mask))
    assert np.array_equal(partners[alone], rows[alone])
    assert sorted(partners[~alone]) == rows[~alone].tolist()
    assert (partners[~alone] != rows[~alone]).all()


def test_every_other_row_is_as_likely_a_partner() -> None:
    words = draws(6000, 4).words
    found = np.array([pair(np.ones(5, bool), int(word))[0] for word in words[:, 2]])
    counts = np.bincount(found, minlength=5)
    assert counts[0] == 0
    assert abs(counts[1:] - 1500).max() < 5 * math.sqrt(1500)


def cdf_of_one(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return x


def cdf_of_two(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return x * x * (3 - 2 * x)


def cdf_of_a_half(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return 2 / np.pi * np.arcsin(np.sqrt(x))


@pytest.mark.parametrize(
    ("alpha", "cdf"), [(1.0, cdf_of_one), (2.0, cdf_of_two), (0.5, cdf_of_a_half)]
)
def test_shares_follow_the_beta_distribution(
    alpha: float, cdf: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
) -> None:
    shares = np.sort(symmetric_beta(alpha, draws(20_000, 3)))
    gap = np.abs(cdf(shares) - (np.arange(20_000) + 0.5) / 20_000).max()
    assert gap < 1.95 / math.sqrt(20_000)  # exceeded once in a thousand times by chance


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.2, 0.4, 3.0, 32.0, 100.0])
def test_shares_have_the_mean_and_the_variance_of_their_alpha(alpha: float) -> None:
    shares = symmetric_beta(alpha, draws(20_000, 3))
    assert ((shares >= 0) & (shares <= 1)).all()
    variance = 1 / (4 * (2 * alpha + 1))
    assert abs(shares.mean() - 0.5) < 5 * math.sqrt(variance / 20_000)
    assert shares.var() == pytest.approx(variance, rel=0.05)


def test_the_extremes_of_the_draws_make_a_share() -> None:
    corners = [0, 1 << 30, 1 << 31, 0xFFFFFFFF]
    words = np.array([[u, v, 0] for u in corners for v in corners], np.uint32)
    for alpha in (0.01, 1.0, 100.0):
        shares = symmetric_beta(alpha, Draws(words))
        assert ((shares >= 0) & (shares <= 1)).all()


def images(dtype: DType, count: int = 4) -> npt.NDArray[Any]:
    values = np.random.default_rng(0).normal(size=(count, 5, 6, 3)).astype(np.float32)
    if dtype is DType.BF16:
        return to_bfloat16(values)
    if dtype is DType.UINT8:
        return np.clip(values * 50 + 128, 0, 255).astype(np.uint8)
    return values.astype(dtype.numpy)


@pytest.mark.parametrize("dtype", [*FLOATS, DType.UINT8])
def test_a_blend_is_two_products_and_a_sum_rounded_once_each(dtype: DType) -> None:
    rows = images(dtype)
    kept = rows.copy()
    partners = np.array([2, 1, 3, 0])
    made = Mixup().apply(rows, row(0.3)[0], partners, dtype=dtype)
    assert made.dtype == rows.dtype
    assert np.array_equal(rows, kept)
    assert np.array_equal(made[1], rows[1])
    own, other = np.float32(0.3), np.float32(1) - np.float32(0.3)
    at = (0, 4, 5, 2)
    mine, theirs = rows[at], rows[2, 4, 5, 2]
    if dtype is DType.BF16:
        mine, theirs = from_bfloat16(np.array([mine, theirs]))
    total = np.float32(np.float32(mine) * own) + np.float32(np.float32(theirs) * other)
    wanted = {
        DType.FP32: float(total),
        DType.FP16: float(np.float16(total)),
        DType.BF16: float(to_bfloat16(np.array([total], np.float32))[0]),
        DType.UINT8: round(float(total)),
    }
    assert float(made[at]) == wanted[dtype]


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_share_of_all_or_nothing_gives_whole_images(dtype: DType) -> None:
    rows = images(dtype)
    partners = pair(np.ones(4, bool), 0)
    assert np.array_equal(Mixup().apply(rows, row(1.0)[0], partners, dtype=dtype), rows)
    made = Mixup().apply(rows, row(0.0)[0], partners, dtype=dtype)
    assert np.array_equal(made, rows[partners])


def test_a_window_is_pasted_where_it_was_cut() -> None:
    rows = images(DType.FP16)
    partners = pair(np.ones(4, bool), 0)
    made = CutMix().apply(rows, row(0.8, (1, 2, 3, 2))[0], partners, dtype=DType.FP16)
    wanted = rows.copy()
    wanted[:, 1:4, 2:4] = rows[partners, 1:4, 2:4]
    assert np.array_equal(made, wanted)


def test_windows_lie_inside_and_shares_are_the_area_that_is_left() -> None:
    op = CutMix(1.0)
    params = op.draw(draws(5000, op.words), 40, 30)
    for first, length, side in (("y", "h", 40), ("x", "w", 30)):
        assert (params[first] >= 0).all()
        assert (params[length] >= 0).all()
        assert (params[first] + params[length] <= side).all()
    area = params["h"] * params["w"] / 1200
    assert np.allclose(params["share"], 1 - area, atol=1e-6)
    assert params["share"].min() < 0.2
    assert params["share"].max() > 0.99


def torchvisions_window(
    share: float, x: int, y: int, height: int, width: int
) -> tuple[int, int, int, int]:
    """make_params of torchvision's CutMix, from its share and centre: y, x, h, w."""
    r = 0.5 * math.sqrt(1 - share)
    half_w, half_h = int(r * width), int(r * height)
    x1, x2 = max(x - half_w, 0), min(x + half_w, width)
    y1, y2 = max(y - half_h, 0), min(y + half_h, height)
    return y1, x1, y2 - y1, x2 - x1


def test_windows_are_what_torchvision_makes_of_the_same_share_and_centre() -> None:
    op = CutMix(0.7)
    drawn = draws(300, op.words)
    params = op.draw(drawn, 33, 47)
    shares = symmetric_beta(0.7, drawn)
    for made, words, share in zip(params, drawn.words.tolist(), shares.tolist(), strict=True):
        y, x = words[3] * 33 >> 32, words[4] * 47 >> 32
        assert made.item()[2:] == torchvisions_window(share, x, y, 33, 47)


def test_one_pixel_is_enough() -> None:
    op = CutMix(1.0)
    params = op.draw(draws(20, op.words), 1, 1)
    assert set(params["share"]) == {1.0}
    assert set(params["h"]) == {0}


def test_labels_are_shared_as_the_pixels_are() -> None:
    labels = np.array([2, 0, 2, -1, 1], np.int32)
    partners = np.array([1, 2, 0, 3, 4])
    made = soft_labels(labels, row(0.75)[0], partners, 3)
    assert made.dtype == np.float32
    assert made.tolist() == [[0.25, 0, 0.75], [0.75, 0, 0.25], [0, 0, 1], [0, 0, 0], [0, 1, 0]]


def test_a_lane_draws_the_same_whatever_other_lanes_are_drawn_with_it() -> None:
    together = draws(8, 5).words
    alone = batch_draws(seed=5, step=3, epoch=1, phase=0, lanes=np.array([6]), words=5)
    assert alone.words.tolist() == together[6:7].tolist()


def test_draws_differ_by_step_epoch_phase_view_position_and_lane() -> None:
    found = {
        batch_draws(
            seed=0,
            step=step,
            epoch=epoch,
            phase=phase,
            lanes=np.array([lane]),
            words=4,
            position=position,
            view=view,
        ).words.tobytes()
        for step in (0, 1)
        for epoch in (0, 1)
        for phase in (0, 1)
        for lane in (0, 1)
        for position in (0, 1)
        for view in (0, 1)
    }
    assert len(found) == 64


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("batch position", {"position": 256}),
        ("view", {"view": 256}),
        ("lane", {"lanes": np.array([1 << 16])}),
        ("step", {"step": 1 << 32}),
    ],
)
def test_numbers_without_room_in_an_address_are_refused(
    field: str, options: dict[str, object]
) -> None:
    where = {"seed": 0, "step": 0, "epoch": 0, "phase": 0, "lanes": np.array([0]), "words": 3}
    with pytest.raises(PlanError, match=f"^{field} "):
        batch_draws(**{**where, **options})  # type: ignore[arg-type]


def test_lanes_of_a_single_row_have_no_pairs_and_are_refused() -> None:
    check_rows(2)
    with pytest.raises(PlanError, match=r"gives a batch 1 row\(s\)"):
        check_rows(1)


@pytest.mark.parametrize("alpha", [0, -1, 1000])
def test_alphas_that_make_no_distribution_are_refused(alpha: float) -> None:
    for kind in (Mixup, CutMix):
        with pytest.raises(ValidationError):
            kind(alpha)
