import io
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import DataObject, binary, data, integers
from PIL import Image

from dtsflow.decode.jpeg_header import read_jpeg, without_metadata
from dtsflow.errors import DecodeError


def jpeg(height: int = 5, width: int = 7, mode: str = "RGB", **options: object) -> bytes:
    shades = np.arange(height * width * 3, dtype=np.uint8).reshape(height, width, 3)
    stored = io.BytesIO()
    Image.fromarray(shades).convert(mode).save(stored, "JPEG", **options)
    return stored.getvalue()


def segment(marker: int, body: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2, "big") + body


def with_segment(stored: bytes, made: bytes) -> bytes:
    return stored[:2] + made + stored[2:]


def test_size_and_sampling_are_read() -> None:
    header = read_jpeg(memoryview(jpeg(5, 7, subsampling="4:2:0")))
    assert (header.height, header.width, header.precision) == (5, 7, 8)
    assert header.sampling == ((2, 2), (1, 1), (1, 1))
    assert header.process == 0xC0
    assert header.orientation == 1


def test_a_progressive_one_and_a_gray_one_are_told() -> None:
    assert read_jpeg(memoryview(jpeg(progressive=True))).process == 0xC2
    assert len(read_jpeg(memoryview(jpeg(mode="L"))).sampling) == 1
    assert len(read_jpeg(memoryview(jpeg(mode="CMYK"))).sampling) == 4


def test_padding_between_segments_is_allowed() -> None:
    stored = jpeg()
    padded = stored[:2] + b"\xff\xff\xff" + stored[2:]
    assert read_jpeg(memoryview(padded)).height == 5


def test_a_marker_without_a_length_is_stepped_over() -> None:
    stored = jpeg()
    assert read_jpeg(memoryview(stored[:2] + b"\xff\x01" + stored[2:])).height == 5


def test_metadata_is_left_out_and_nothing_else() -> None:
    plain = jpeg()
    exif = segment(0xE1, b"Exif\0\0" + bytes(40))
    xmp = segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + bytes(9))
    stored = memoryview(with_segment(with_segment(plain, exif), xmp))
    assert without_metadata(stored, read_jpeg(stored)) == plain


@pytest.mark.parametrize("percent", [25, 50, 99])
def test_a_file_that_was_cut_short_is_refused(percent: int) -> None:
    stored = jpeg(64, 64)
    with pytest.raises(DecodeError, match="cut short"):
        read_jpeg(memoryview(stored[: len(stored) * percent // 100]))


def test_the_end_of_a_thumbnail_is_not_the_end_of_the_image() -> None:
    stored = with_segment(jpeg(64, 64), segment(0xE1, b"Exif\0\0" + jpeg()))
    assert read_jpeg(memoryview(stored)).height == 64
    with pytest.raises(DecodeError, match="end-of-image"):
        read_jpeg(memoryview(stored[:-2]))


def test_what_follows_the_end_is_ignored() -> None:
    assert read_jpeg(memoryview(jpeg() + b"garbage" * 100)).width == 7


def test_too_many_scans_are_refused() -> None:
    stored = jpeg(progressive=True)
    scan = stored[stored.index(b"\xff\xda") : -2]
    with pytest.raises(DecodeError, match="scans, and at most 500"):
        read_jpeg(memoryview(stored[:-2] + scan * 501 + stored[-2:]))


def test_a_huge_size_is_refused_before_anything_is_decoded() -> None:
    stored = bytearray(jpeg())
    frame = stored.index(b"\xff\xc0")
    stored[frame + 5 : frame + 9] = (65_500).to_bytes(2, "big") * 2
    with pytest.raises(DecodeError, match="65500 x 65500 = 4290250000 pixels"):
        read_jpeg(memoryview(stored))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"\xff\xdb", b"\x00\xdb", "where a marker must be"),
        (b"\xff\xdb", b"\xff\xd9", "marker 0xd9 stands in"),
        (b"\xff\xdb\x00", b"\xff\xdb\xff", "cut short or damaged"),
        (b"\x03\x01\x22\x00", b"\x04\x01\x22\x00", "frame header has 15 bytes for 4"),
        (b"\xff\xc0", b"\xff\xe3", "no frame"),
    ],
)
def test_a_damaged_header_is_refused_by_its_fault(old: bytes, new: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        read_jpeg(memoryview(jpeg().replace(old, new, 1)))


def test_two_frames_are_refused() -> None:
    stored = jpeg()
    frame = stored[stored.index(b"\xff\xc0") :][:19]
    with pytest.raises(DecodeError, match="two frames"):
        read_jpeg(memoryview(with_segment(stored, frame)))


@given(binary(max_size=60))
def test_any_bytes_give_a_header_or_a_reason(tail: bytes) -> None:
    with suppress(DecodeError):
        read_jpeg(memoryview(b"\xff\xd8\xff" + tail))


@given(integers(0, 600), integers(0, 255), data())
def test_any_damage_gives_a_header_or_a_reason(place: int, byte: int, more: DataObject) -> None:
    stored = bytearray(jpeg(8, 8))
    stored[place % len(stored)] = byte
    del stored[more.draw(integers(3, len(stored))) :]
    with suppress(DecodeError):
        header = read_jpeg(memoryview(stored))
        assert header.height * header.width > 0
