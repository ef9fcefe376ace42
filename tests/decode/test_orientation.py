import io
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers
from PIL import Image, ImageOps

from dtsflow.decode.decoder import read_orientation, turn_upright, upright_size


def exif(orientation: int, order: str = "<", kind: int = 3, values: int = 1) -> bytes:
    mark = b"II*\0" if order == "<" else b"MM\0*"
    value = struct.pack(order + ("H2x" if kind == 3 else "I"), orientation)
    other = struct.pack(order + "HHII", 0x0100, 3, 1, 7)
    entry = struct.pack(order + "HHI", 0x0112, kind, values) + value
    return mark + struct.pack(order + "IH", 8, 2) + other + entry + bytes(4)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [3, 4])
def test_it_is_read_from_either_byte_order(orientation: int, order: str, kind: int) -> None:
    assert read_orientation(exif(orientation, order, kind)) == orientation
    assert read_orientation(b"Exif\0\0" + exif(orientation, order, kind)) == orientation


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_a_number_that_is_none_means_upright(orientation: int) -> None:
    assert read_orientation(exif(orientation)) == 1


def test_another_type_or_count_means_upright() -> None:
    assert read_orientation(exif(6, kind=2)) == 1
    assert read_orientation(exif(6, values=2)) == 1


@pytest.mark.parametrize("length", range(len(exif(6)) - 6))
def test_metadata_that_is_cut_short_means_upright(length: int) -> None:
    assert read_orientation(exif(6)[:length]) == 1


@given(binary(max_size=200))
def test_any_bytes_are_survived(data: bytes) -> None:
    assert read_orientation(data) in range(1, 9)
    assert read_orientation(b"II*\0" + data) in range(1, 9)
    assert read_orientation(b"MM\0*" + data) in range(1, 9)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turning_is_what_pillow_does(orientation: int) -> None:
    image = np.random.default_rng(0).integers(0, 256, (3, 5, 3), np.uint8)
    stored = io.BytesIO()
    tags = Image.Exif()
    tags[0x0112] = orientation
    Image.fromarray(image).save(stored, "PNG", exif=tags)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(stored)))
    turned = turn_upright(image, orientation)
    assert np.array_equal(turned, expected)
    assert turned.flags.c_contiguous


@given(integers(1, 9), integers(1, 9), integers(1, 8))
def test_the_size_is_foretold(height: int, width: int, orientation: int) -> None:
    turned = turn_upright(np.zeros((height, width, 3), np.uint8), orientation)
    assert turned.shape[:2] == upright_size(height, width, orientation)
