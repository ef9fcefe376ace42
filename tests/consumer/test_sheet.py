from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dtsflow.arena.batch import Batch
from dtsflow.consumer.consumer import PhaseSetting, Setting
from dtsflow.consumer.sheet import Sheet, draw, picture
from dtsflow.errors import ConfigError
from dtsflow.po.normalize import Normalize
from dtsflow.tensor.dtype import DType


def test_normalisation_is_undone() -> None:
    pixels = np.arange(256, dtype=np.uint8).repeat(3).reshape(16, 16, 3)
    for dtype in (DType.FP32, DType.FP16, DType.BF16):
        normalize = Normalize(preset="imagenet", dtype=dtype)
        stored = np.empty(pixels.shape, dtype.numpy)
        normalize.apply(pixels, stored, np.empty(1, [])[0])
        shown = np.asarray(picture(stored, normalize)).astype(int)
        assert np.abs(shown - pixels).max() <= (1 if dtype is DType.BF16 else 0)


def test_gray_pixels_give_a_gray_picture() -> None:
    assert picture(np.zeros((4, 4, 1), np.uint8), None).mode == "L"


def test_small_pictures_are_enlarged_and_captioned() -> None:
    page = draw([Image.new("L", (28, 28), 0)] * 3, ["7", "1", "0"], columns=2)
    assert page.width >= 2 * 28 * 4
    assert page.height >= 2 * 28 * 4
    assert (np.asarray(page) == (40, 40, 40)).all(axis=-1).any()


def test_only_the_first_batch_is_drawn_and_only_its_valid_rows(tmp_path: Path) -> None:
    images = np.full((3, 8, 8, 3), 200, np.uint8)
    batch = Batch(
        images=images,
        padded=images,
        labels=np.array([0, 1, -1], np.int32),
        valid=np.array([True, True, False]),
        sample_ids=np.array([4, 2, -1]),
        phase="train",
        epoch=0,
        step=0,
        first_row=0,
        zone=0,
    )
    setting = Setting(tmp_path, {"train": PhaseSetting(0, ("cat", "dog"))})
    sink = Sheet(columns=1).open(setting)
    sink.take(batch)
    first = (tmp_path / "sheet.png").read_bytes()
    images[:] = 0
    sink.take(batch)
    assert sink.results() == {"sheet": str(tmp_path / "sheet.png")}
    assert (tmp_path / "sheet.png").read_bytes() == first
    with Image.open(tmp_path / "sheet.png") as page:
        assert page.height < 3 * 96


def test_a_run_without_a_folder_needs_an_absolute_file() -> None:
    setting = Setting(None, {"train": PhaseSetting(0)})
    with pytest.raises(ConfigError, match=r"consumer\.file.*absolute"):
        Sheet().open(setting)
