import pytest

from dtsflow.decode.decoder import MAX_PIXELS, Format, check_size, sniff
from dtsflow.errors import DecodeError


@pytest.mark.parametrize(
    ("start", "found"),
    [
        (b"\xff\xd8\xff\xe0", Format.JPEG),
        (b"\x89PNG\r\n\x1a\n....", Format.PNG),
        (b"GIF89a....", Format.GIF),
        (b"BM....", Format.BMP),
        (b"RIFF\0\0\0\0WEBPVP8 ", Format.WEBP),
        (b"II*\0....", Format.TIFF),
        (b"MM\0*....", Format.TIFF),
        (b"P6 1 1 255 ", Format.PPM),
    ],
)
def test_the_content_decides_the_format(start: bytes, found: Format) -> None:
    assert sniff(memoryview(start)) is found


def test_zero_bytes_are_said_to_be_zero_bytes() -> None:
    with pytest.raises(DecodeError, match="zero bytes"):
        sniff(memoryview(b""))


def test_text_is_no_image_and_the_message_shows_it() -> None:
    with pytest.raises(DecodeError, match=r"begins with b'hello world!'.*JPEG, PNG"):
        sniff(memoryview(b"hello world! And more."))


def test_another_riff_file_is_no_webp() -> None:
    with pytest.raises(DecodeError, match="no image"):
        sniff(memoryview(b"RIFF\0\0\0\0WAVEfmt "))


@pytest.mark.parametrize(("height", "width"), [(0, 5), (5, 0), (MAX_PIXELS + 1, 1)])
def test_an_impossible_size_is_refused(height: int, width: int) -> None:
    with pytest.raises(DecodeError, match=f"{height} x {width}"):
        check_size(height, width)


def test_the_limit_itself_is_allowed() -> None:
    check_size(1, MAX_PIXELS)
