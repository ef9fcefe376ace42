from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageEnhance
from pydantic import ValidationError

from dtsflow.errors import PlanError
from dtsflow.native.core import CASTS, OWN_FIRST, STEP_NUMBERS, Status, StepKind, load
from dtsflow.po.color import JITTER, NAMES, ColorJitter, turn_hue
from dtsflow.po.operation import Draws
from dtsflow.spec import ImageSpec
from dtsflow.tensor.dtype import DType

Pixels = Any
ENHANCERS = {
    "brightness": ImageEnhance.Brightness,
    "contrast": ImageEnhance.Contrast,
    "saturation": ImageEnhance.Color,
}


def draws(count: int, seed: int = 0) -> Draws:
    return Draws(np.random.default_rng(seed).integers(0, 2**32, (count, 5), np.uint32))


def params_of(order: list[int], factors: dict[str, float]) -> Any:
    made = np.zeros(1, JITTER)
    made["order"] = order
    for name, value in factors.items():
        made[name] = value
    return made


def by_pillow(picture: Image.Image, params: Any) -> Image.Image:
    """The four as torchvision calls Pillow for them."""
    for change in params["order"]:
        if change < 0:
            continue
        name = NAMES[change]
        if name == "hue":
            hue, saturation, value = picture.convert("HSV").split()
            turned = np.asarray(hue) + params["hue"].astype(np.uint8)
            picture = Image.merge("HSV", (Image.fromarray(turned), saturation, value))
            picture = picture.convert("RGB")
        else:
            picture = ENHANCERS[name](picture).enhance(float(params[name]))
    return picture


def colours() -> Pixels:
    """Each of the 2^24, as an image."""
    every = np.arange(1 << 24, dtype=np.uint32)
    channels = [(every >> shift & 255).astype(np.uint8) for shift in (0, 8, 16)]
    return np.stack(channels, axis=-1).reshape(4096, 4096, 3)


def test_the_four_are_pillows_in_any_order() -> None:
    rng = np.random.default_rng(3)
    jitter = ColorJitter(brightness=(0, 3), contrast=(0, 3), saturation=(0, 3), hue=0.5)
    chosen = jitter.draw(draws(150), np.ones((150, 2), np.int64))
    chosen["brightness"][::7], chosen["contrast"][::5], chosen["saturation"][::3] = 0, 1, 1
    for number in range(150):
        height, width = rng.integers(1, 40, 2)
        image = rng.integers(0, 256, (height, width, 3), np.uint8)
        if number % 2:
            image //= 16
        out = np.empty_like(image)
        jitter.apply(image, out, chosen[number])
        wanted = by_pillow(Image.fromarray(image), chosen[number])
        assert np.array_equal(out, np.asarray(wanted)), number


def test_one_channel_is_pillows_too() -> None:
    rng = np.random.default_rng(4)
    jitter = ColorJitter(brightness=0.8, contrast=0.8)
    chosen = jitter.draw(draws(50), np.ones((50, 2), np.int64))
    for row in chosen:
        image = rng.integers(0, 256, (5, 9, 1), np.uint8)
        out = np.empty_like(image)
        jitter.apply(image, out, row)
        wanted = by_pillow(Image.fromarray(image[..., 0]), row)
        assert np.array_equal(out[..., 0], np.asarray(wanted))


@pytest.mark.parametrize("shift", [0, 77])
def test_every_colour_turns_as_in_pillow(shift: int) -> None:
    core = load()
    every = colours()
    row = params_of([3, -1, -1, -1], {"hue": shift})
    wanted = np.asarray(by_pillow(Image.fromarray(every), row[0]))
    some = np.random.default_rng(shift).integers(0, 1 << 24, 200_000)
    by_numpy = turn_hue(every.reshape(-1, 3)[some].astype(np.int32), shift)
    assert np.array_equal(by_numpy, wanted.reshape(-1, 3)[some])
    if core is None:
        return
    packed = np.zeros((1, 1, STEP_NUMBERS), np.int32)
    packed[0, 0, OWN_FIRST : OWN_FIRST + 8] = row.view(np.int32)
    nothing = np.empty(0, np.float32)
    cast = CASTS[DType.UINT8]
    kinds = [int(StepKind.JITTER)]
    program = core.Program(kinds, False, 3, 3, cast, nothing, nothing, np.empty(0, np.uint8))  # noqa: FBT003  # its only form
    best = core.cpu_level()
    shape, zero = np.array([[4096, 4096]], np.int32), np.zeros(1, np.int64)
    for level in ("portable", best):
        core.force_cpu_level(level)
        out, status = np.empty_like(every), np.empty(1, np.int32)
        size = np.array([every.size])
        flat = every.reshape(-1)
        core.run_chunk(
            program, flat, zero, size, shape, packed, out.reshape(-1), zero, shape, status
        )
        assert status[0] == Status.OK
        assert np.array_equal(out, wanted), level


def test_factors_are_uniform_and_orders_alike_often() -> None:
    count = 24_000
    jitter = ColorJitter(brightness=0.4, contrast=(0.5, 0.7), saturation=2.0, hue=0.1)
    chosen = jitter.draw(draws(count), np.ones((count, 2), np.int64))
    ranges = {"brightness": (0.6, 1.4), "contrast": (0.5, 0.7), "saturation": (0, 3)}
    for name, (low, high) in ranges.items():
        values = chosen[name]
        assert low <= values.min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < values.max() <= np.float32(high)
        assert abs(values.mean() - (low + high) / 2) < 0.01 * (high - low)
    shifts = (chosen["hue"] + 128) % 256 - 128
    assert (shifts.min(), shifts.max()) == (-25, 25)
    orders, counts = np.unique(chosen["order"], axis=0, return_counts=True)
    assert len(orders) == 24
    assert counts.min() > 850
    assert counts.max() < 1150


def test_what_is_zero_is_left_out_and_the_rest_keeps_its_draws() -> None:
    sizes = np.ones((50, 2), np.int64)
    all_of_them = ColorJitter(0.4, 0.4, 0.4, 0.1).draw(draws(50), sizes)
    two = ColorJitter(brightness=0.4, hue=0.1).draw(draws(50), sizes)
    assert np.array_equal(all_of_them["brightness"], two["brightness"])
    assert np.array_equal(all_of_them["hue"], two["hue"])
    left_out = np.isin(all_of_them["order"], (1, 2))
    assert np.array_equal(two["order"], np.where(left_out, -1, all_of_them["order"]))


def test_no_change_at_all_copies() -> None:
    image = np.random.default_rng(0).integers(0, 256, (4, 5, 3), np.uint8)
    out = np.empty_like(image)
    jitter = ColorJitter()
    jitter.apply(image, out, jitter.draw(draws(1), np.ones((1, 2), np.int64))[0])
    assert np.array_equal(out, image)


@pytest.mark.parametrize("name", ["saturation", "hue"])
def test_gray_images_have_no_colour_to_change(name: str) -> None:
    jitter = ColorJitter(brightness=0.1, **{name: 0.2})
    with pytest.raises(PlanError, match=f"{name} is 0.2 and the images have 1 channel.*to 0"):
        jitter.out_spec(ImageSpec(28, 28, 1))
    assert ColorJitter(0.1, 0.1).out_spec(ImageSpec(28, 28, 1)) == ImageSpec(28, 28, 1)


def test_two_channels_are_refused() -> None:
    with pytest.raises(PlanError, match="have 2 channels"):
        ColorJitter(0.1).out_spec(ImageSpec(8, 8, 2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hue": 0.51}, "less than or equal to 0.5"),
        ({"hue": (-0.6, 0.1)}, "greater than or equal to -0.5"),
        ({"hue": -0.1}, "greater than or equal to 0"),
        ({"brightness": -1}, "greater than or equal to 0"),
        ({"contrast": (0.5, 0.2)}, "contrast goes from 0.5 to 0.2"),
        ({"saturation": float("nan")}, "less than or equal to 10000"),
    ],
)
def test_ranges_out_of_bounds_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ColorJitter(**settings)
