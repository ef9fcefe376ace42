"""Restart markers written without loss, and windows decoded from between them."""

import io
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dtsflow.native.core import CASTS, STEP_NUMBERS, Status, StepKind, load
from dtsflow.tensor.dtype import DType

found = load()
if found is None:
    pytest.skip("the native core was not built", allow_module_level=True)
core: ModuleType = found

Pixels = npt.NDArray[np.uint8]
HEIGHT, WIDTH = 150, 203


def photo(height: int = HEIGHT, width: int = WIDTH, mode: str = "RGB", **options: Any) -> bytes:
    noise = np.random.default_rng(height + width).integers(0, 256, (height, width, 3), np.uint8)
    stored = io.BytesIO()
    Image.fromarray(noise).convert(mode).save(stored, "JPEG", **options)
    return stored.getvalue()


def pixels(data: bytes) -> Pixels:
    return np.asarray(Image.open(io.BytesIO(data)))


def markers(data: bytes) -> int:
    return sum(data.count(bytes([0xFF, 0xD0 + number])) for number in range(8))


def add_restarts(data: bytes) -> bytes:
    made = core.add_restarts(data)
    assert isinstance(made, bytes)
    return made


def crop(data: bytes, window: tuple[int, int, int, int]) -> tuple[int, Pixels]:
    """Status and pixels of only `window`: y, x, height, width."""
    nothing = np.empty(0, np.float32)
    kinds, cast = [int(StepKind.CROP)], CASTS[DType.UINT8]
    program = core.Program(
        kinds,
        encoded=True,
        channels=3,
        stored_channels=3,
        cast=cast,
        scale=nothing,
        offset=nothing,
        table=np.empty(0, np.uint8),
    )
    height, width = Image.open(io.BytesIO(data)).size[::-1]
    params = np.zeros((1, 1, STEP_NUMBERS), np.int32)
    params[0, 0, :7] = *window, *window[2:], 1
    out, zero = np.zeros((*window[2:], 3), np.uint8), np.zeros(1, np.int64)
    sizes, status = np.array([len(data)], np.int64), np.full(1, -1, np.int32)
    shapes = np.array([[height, width]], np.int32), np.array([window[2:]], np.int32)
    memory = np.frombuffer(data, np.uint8)
    args = (memory, zero, sizes, shapes[0], params, out.reshape(-1), zero, shapes[1], status)
    core.run_chunk(program, *args)
    return int(status[0]), out


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("kind", ["baseline", "progressive"])
@pytest.mark.parametrize("size", [(1, 1), (8, 8), (17, 33), (HEIGHT, WIDTH)])
def test_pixels_stay_the_same(subsampling: int, kind: str, size: tuple[int, int]) -> None:
    data = photo(*size, subsampling=subsampling, progressive=kind == "progressive")
    made = add_restarts(data)
    assert np.array_equal(pixels(made), pixels(data))
    assert Image.open(io.BytesIO(made)).info.get("progressive") is None


def test_a_gray_image_stays_gray() -> None:
    data = photo(mode="L")
    made = Image.open(io.BytesIO(add_restarts(data)))
    assert made.mode == "L"
    assert np.array_equal(np.asarray(made), pixels(data))


def test_rows_of_blocks_are_cut_every_64_pixels_where_they_divide() -> None:
    made = add_restarts(photo(160, 512, subsampling=2))
    assert markers(made) == 10 * 8 - 1


def test_a_row_of_a_prime_number_of_blocks_is_cut_at_each() -> None:
    made = add_restarts(photo(32, 19 * 16, subsampling=2))
    assert markers(made) == 2 * 19 - 1


def test_once_more_changes_nothing() -> None:
    made = add_restarts(photo())
    assert add_restarts(made) == made


def test_metadata_is_kept() -> None:
    exif = Image.Exif()
    exif[274] = 6
    data = photo(
        exif=exif.tobytes(), icc_profile=b"profile" * 20_000, comment=b"seen", dpi=(72, 71)
    )
    before = Image.open(io.BytesIO(data)).info
    assert {"exif", "icc_profile", "comment", "dpi"} <= before.keys()
    assert Image.open(io.BytesIO(add_restarts(data))).info == before


def test_what_only_the_reference_decodes_stays_as_it_is() -> None:
    assert core.add_restarts(photo(mode="CMYK")) is None
    png = io.BytesIO()
    Image.new("RGB", (9, 9)).save(png, "PNG")
    assert core.add_restarts(png.getvalue()) is None
    assert core.add_restarts(b"") is None


@pytest.mark.parametrize("damage", ["cut", "zeros"])
def test_a_damaged_image_stays_as_it_is(damage: str) -> None:
    data = photo()
    middle = len(data) // 2
    hurt = {
        "cut": data[:middle] + b"\xff\xd9",
        "zeros": data[:middle] + bytes(400) + data[middle + 400 :],
    }
    if damage == "zeros":  # which may decode to some pixels: then those are kept
        made = core.add_restarts(hurt[damage])
        assert made is None or np.array_equal(pixels(made), pixels(hurt[damage]))
    else:
        assert core.add_restarts(hurt[damage]) is None


@given(st.data())
def test_every_window_is_the_crop_of_the_whole(data: st.DataObject) -> None:
    height, width = data.draw(st.integers(1, 120)), data.draw(st.integers(1, 200))
    options: dict[str, Any] = {"subsampling": data.draw(st.integers(0, 2))}
    jpeg = photo(height, width, data.draw(st.sampled_from(["RGB", "L"])), **options)
    made = add_restarts(jpeg)
    y, x = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    h, w = data.draw(st.integers(1, height - y)), data.draw(st.integers(1, width - x))
    wanted = np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB"))[y : y + h, x : x + w]
    status, out = crop(made, (y, x, h, w))
    assert status == Status.OK
    assert np.array_equal(out, wanted)


@pytest.mark.parametrize("blocks", [1, 2, 5, 13, 14, 26, 200])
def test_markers_of_others_serve_too_or_do_no_harm(blocks: int) -> None:
    jpeg = photo(subsampling=2, restart_marker_blocks=blocks)
    status, out = crop(jpeg, (60, 70, 30, 40))
    assert status == Status.OK
    assert np.array_equal(out, pixels(jpeg)[60:90, 70:110])


def test_what_lies_above_and_beside_a_window_is_not_decoded() -> None:
    made = add_restarts(photo(160, 512, subsampling=0))
    scan = made.index(b"\xff\xda") + 14
    hurt = made[:scan] + b"\xff\x00" * 40 + made[scan + 80 :]  # no code is all ones
    window = (80, 200, 40, 60)
    status, out = crop(hurt, window)
    assert status == Status.OK
    assert np.array_equal(out, pixels(made)[80:120, 200:260])
    assert crop(hurt, (0, 0, 8, 8))[0] == Status.DAMAGED


def test_markers_out_of_order_are_left_to_the_decoder() -> None:
    made = add_restarts(photo(160, 512, subsampling=2))
    swapped = made.replace(b"\xff\xd3", b"\xff\xd5", 1)
    assert crop(swapped, (80, 200, 40, 60))[0] == Status.DAMAGED
