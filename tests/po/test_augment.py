from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageEnhance, ImageOps
from pydantic import ValidationError

from dtsflow.errors import PlanError
from dtsflow.native.core import StepKind
from dtsflow.po import augment
from dtsflow.po.affine import MAP
from dtsflow.po.augment import (
    BITS,
    FACTOR,
    THRESHOLD,
    Augmentation,
    RandAugment,
    TrivialAugmentWide,
    substeps,
)
from dtsflow.po.color import JITTER
from dtsflow.po.operation import Draws
from dtsflow.spec import ImageSpec

Pixels = npt.NDArray[np.uint8]
SHAPES = [(40, 31, 3), (1, 1, 3), (2, 5, 3), (3, 3, 3), (17, 20, 1)]


def picture(shape: tuple[int, ...]) -> Pixels:
    rng = np.random.default_rng(shape)
    coarse = rng.integers(0, 256, (4, 5, shape[2]), np.uint8)
    large = coarse.repeat(16, axis=0).repeat(16, axis=1)[: shape[0], : shape[1]]
    made: Pixels = large // 2 + rng.integers(0, 90, shape, np.uint8)
    return made


def augmented(image: Pixels, name: str, magnitude: float) -> Pixels:
    rows = substeps(
        np.array([Augmentation[name.upper()]]),
        np.array([magnitude]),
        np.array([image.shape[:2]]),
        interpolation="nearest",
        fill=0,
    )
    out = np.empty_like(image)
    augment.apply_substep(image, out, rows[0])
    return out


def by_pillow(image: Pixels, change: Any) -> Pixels:
    opened = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    return np.asarray(change(opened)).reshape(image.shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("name", "enhancer"),
    [
        ("brightness", ImageEnhance.Brightness),
        ("color", ImageEnhance.Color),
        ("contrast", ImageEnhance.Contrast),
        ("sharpness", ImageEnhance.Sharpness),
    ],
)
def test_what_mixes_is_pillows(name: str, enhancer: Any, shape: tuple[int, ...]) -> None:
    image = picture(shape)
    for magnitude in np.linspace(-0.99, 0.99, 23):
        wanted = by_pillow(image, lambda it, m=magnitude: enhancer(it).enhance(1.0 + m))
        assert np.array_equal(augmented(image, name, magnitude), wanted), magnitude


@pytest.mark.parametrize("shape", SHAPES)
def test_what_maps_values_is_pillows(shape: tuple[int, ...]) -> None:
    image = picture(shape)
    for bits in range(1, 9):
        wanted = by_pillow(image, lambda it, b=bits: ImageOps.posterize(it, b))
        assert np.array_equal(augmented(image, "posterize", bits), wanted)
    for threshold in (0.0, 8.5, 127.5, 128.0, 255.0):
        wanted = by_pillow(image, lambda it, t=threshold: ImageOps.solarize(it, t))
        assert np.array_equal(augmented(image, "solarize", threshold), wanted)
    for few in (image, image // 64, image * 0 + 7):
        assert np.array_equal(augmented(few, "equalize", 0), by_pillow(few, ImageOps.equalize))
        stretched = by_pillow(few, ImageOps.autocontrast)
        assert np.array_equal(augmented(few, "autocontrast", 0), stretched)
    assert np.array_equal(augmented(image, "identity", 0), image)


def test_translations_move_by_whole_pixels_to_the_right_and_down() -> None:
    image = picture((20, 30, 3))
    for magnitude in (-7.9, -1.0, 0.9, 5.5):
        whole = int(magnitude)
        wanted = np.zeros_like(image)
        wanted[:, max(whole, 0) : 30 + min(whole, 0)] = image[
            :, max(-whole, 0) : 30 - max(whole, 0)
        ]
        assert np.array_equal(augmented(image, "translate_x", magnitude), wanted)
        turned = augmented(image.transpose(1, 0, 2), "translate_y", magnitude)
        assert np.array_equal(turned.transpose(1, 0, 2), wanted)


def test_shears_leave_the_first_line_and_rotations_the_centre() -> None:
    image = picture((40, 40, 3))
    sheared = augmented(image, "shear_x", 0.3)
    for y in (0, 1, 10, 39):
        shift = int(np.floor(0.5 + 0.3 * (y + 0.5)))
        assert np.array_equal(sheared[y, : 40 - shift], image[y, shift:])
        assert not sheared[y, 40 - shift :].any()
    along_y = augmented(image.transpose(1, 0, 2), "shear_y", 0.3)
    assert np.array_equal(along_y.transpose(1, 0, 2), sheared)
    wanted = np.asarray(Image.fromarray(image).rotate(25))
    assert (augmented(image, "rotate", 25.0) == wanted).all(axis=2).mean() > 0.98
    assert np.array_equal(augmented(image, "rotate", 90.0), np.rot90(image))


def draws(words: int, count: int = 42_000) -> Draws:
    return Draws(np.random.default_rng(0).integers(0, 2**32, (count, words), np.uint32))


def own(rows: Any, dtype: Any) -> Any:
    return np.array([np.frombuffer(row.tobytes(), dtype, 1)[0] for row in rows["own"]])


def test_all_fourteen_are_drawn_alike_often() -> None:
    chosen = RandAugment().draw(draws(4), np.full((42_000, 2), 100))["steps"]
    for number in range(2):
        counts = Counter(chosen["kind"][:, number].tolist())
        assert counts[-1] == pytest.approx(3000, abs=250)
        assert counts[StepKind.WARP] == pytest.approx(15_000, abs=500)
        assert counts[StepKind.JITTER] == pytest.approx(9000, abs=400)
        for kind in ("SHARPEN", "POSTERIZE", "SOLARIZE", "AUTOCONTRAST", "EQUALIZE"):
            assert counts[StepKind[kind]] == pytest.approx(3000, abs=250)
    both = chosen["kind"][:, 0] == chosen["kind"][:, 1]
    assert 0.15 < both.mean() < 0.25  # as independent ones agree: 39 / 196


def test_rand_augments_strengths_are_torchvisions() -> None:
    sizes = np.full((4000, 2), (200, 331))
    rows = RandAugment(num_ops=1).draw(draws(2, 4000), sizes)["steps"][:, 0]
    factors = own(rows[rows["kind"] == StepKind.SHARPEN], FACTOR)["factor"]
    assert sorted(set(factors.tolist())) == pytest.approx([0.73, 1.27], abs=1e-7)
    assert set(own(rows[rows["kind"] == StepKind.POSTERIZE], BITS)["bits"].tolist()) == {7}
    thresholds = own(rows[rows["kind"] == StepKind.SOLARIZE], THRESHOLD)["threshold"]
    assert set(thresholds.tolist()) == {178.5}
    maps = own(rows[rows["kind"] == StepKind.WARP], MAP)
    plain = (maps["xx"] == 1 << 24) & (maps["xy"] == 0) & (maps["yx"] == 0)
    moves = {(m["x0"] - (1 << 23)) / 2**24 for m in maps[plain]}
    assert moves == {0.0, 45.0, -45.0}  # 150 * 9 / 30 pixels of 331
    slopes = {round(m["xy"] / 2**24, 6) for m in maps[maps["xx"] == 1 << 24]}
    assert slopes == {0.0, 0.09, -0.09}
    angles = {
        round(float(np.degrees(np.arctan2(m["yx"], m["xx"]))), 4)
        for m in maps[maps["xx"] != 1 << 24]
    }
    assert angles == {9.0, -9.0}


def test_trivial_augments_strengths_cover_their_ranges() -> None:
    rows = TrivialAugmentWide().draw(draws(3), np.full((42_000, 2), 100))
    factors = own(rows[rows["kind"] == StepKind.SHARPEN], FACTOR)["factor"]
    assert abs(factors.min() - 0.01) < 1e-7
    assert abs(factors.max() - 1.99) < 1e-7
    assert len(np.unique(factors)) == 61
    assert abs(factors.mean() - 1) < 0.03
    bits = Counter(own(rows[rows["kind"] == StepKind.POSTERIZE], BITS)["bits"].tolist())
    assert sorted(bits) == [2, 3, 4, 5, 6, 7, 8]
    thresholds = own(rows[rows["kind"] == StepKind.SOLARIZE], THRESHOLD)["threshold"]
    assert thresholds.min() == 0
    assert thresholds.max() == 255
    orders = own(rows[rows["kind"] == StepKind.JITTER], JITTER)["order"][:, 0]
    assert Counter(orders.tolist()).keys() == {0, 1, 2}


def test_one_channel_goes_through_all_of_them() -> None:
    assert RandAugment().out_spec(ImageSpec(9, 9, 1)) == ImageSpec(9, 9, 1)
    image = picture((17, 20, 1))
    assert np.array_equal(augmented(image, "color", 0.9), image)


@pytest.mark.parametrize("kind", [RandAugment, TrivialAugmentWide])
def test_other_images_and_fills_are_refused(kind: type[RandAugment]) -> None:
    with pytest.raises(PlanError, match="have 4 channels"):
        kind().out_spec(ImageSpec(9, 9, 4))
    with pytest.raises(PlanError, match=r"fill \[1, 2, 3\] is for 3"):
        kind(fill=(1, 2, 3)).out_spec(ImageSpec(9, 9, 1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_ops": 0}, "greater than or equal to 1"),
        ({"magnitude": 31}, "magnitude is 31 and num_magnitude_bins 31. Give.* 0 to 30"),
        ({"magnitude": -1}, "greater than or equal to 0"),
        ({"num_magnitude_bins": 1, "magnitude": 0}, "greater than or equal to 2"),
    ],
)
def test_strengths_that_make_no_sense_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RandAugment(**settings)
