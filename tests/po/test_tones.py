"""Grayscale and autocontrast."""

import numpy as np
import pytest
from PIL import Image, ImageOps
from pydantic import ValidationError

from dtsflow.errors import PlanError
from dtsflow.po.color import RandomAutocontrast, RandomGrayscale
from dtsflow.po.operation import Draws, Operation
from dtsflow.spec import ImageSpec


def always(operation: Operation, image: np.ndarray) -> np.ndarray:
    row = operation.draw(Draws(np.zeros((1, 1), np.uint32)), np.array([image.shape[:2]]))[0]
    out = np.empty_like(image)
    operation.apply(image, out, row)
    return out


def test_gray_is_pillows_l() -> None:
    image = np.random.default_rng(0).integers(0, 256, (200, 300, 3), np.uint8)
    wanted = np.asarray(Image.fromarray(image).convert("L").convert("RGB"))
    assert np.array_equal(always(RandomGrayscale(1), image), wanted)


@pytest.mark.parametrize("channels", [1, 3])
def test_contrast_is_pillows(channels: int) -> None:
    for low in (0, 3, 100, 255):
        for high in (0, 7, 101, 254, 255):
            if high < low:
                continue
            values = np.linspace(low, high, 600).reshape(-1, 20, 1)
            image = np.repeat(values.astype(np.uint8), channels, axis=2)
            image[..., 0] = image[::-1, ..., 0] // 2
            picture = Image.fromarray(image[..., 0] if channels == 1 else image)
            wanted = np.asarray(ImageOps.autocontrast(picture)).reshape(image.shape)
            assert np.array_equal(always(RandomAutocontrast(1), image), wanted), (low, high)


@pytest.mark.parametrize("operation", [RandomGrayscale(0.3), RandomAutocontrast(0.3)])
def test_they_happen_with_their_probability(operation: Operation) -> None:
    words = np.random.default_rng(1).integers(0, 2**32, (20_000, 1), np.uint32)
    happens = operation.draw(Draws(words), np.ones((20_000, 2), np.int64))["happens"]
    assert abs(happens.mean() - 0.3) < 0.012


@pytest.mark.parametrize("kind", [RandomGrayscale, RandomAutocontrast])
def test_a_probability_is_never_beyond_one(kind: type[RandomGrayscale]) -> None:
    for p in (-0.1, 1.1):
        with pytest.raises(ValidationError, match="than or equal to"):
            kind(p)
    highest = Draws(np.full((9, 1), 0xFFFFFFFF, np.uint32))
    assert kind(1.0).draw(highest, np.ones((9, 2), np.int64))["happens"].all()
    lowest = Draws(np.zeros((9, 1), np.uint32))
    assert not kind(0.0).draw(lowest, np.ones((9, 2), np.int64))["happens"].any()


def test_gray_images_cannot_lose_colours() -> None:
    with pytest.raises(PlanError, match=r"have 1 channel\(s\), not 3. Leave it out"):
        RandomGrayscale().out_spec(ImageSpec(9, 9, 1))


def test_autocontrast_takes_gray_and_rgb() -> None:
    assert RandomAutocontrast().out_spec(ImageSpec(9, 9, 1)) == ImageSpec(9, 9, 1)
    with pytest.raises(PlanError, match="have 4 channels"):
        RandomAutocontrast().out_spec(ImageSpec(9, 9, 4))
