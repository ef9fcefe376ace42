"""What counts as an image, for every decoder alike.

A stored sample is decoded to RGB, uint8, height x width x channels. Its content decides
what it is, never its name. Gray is replicated; CMYK and YCCK become what Pillow's
`convert("RGB")` makes of them; a palette is looked up; alpha and transparency are
dropped without blending; of 16 bits a channel the high 8 are kept (value >> 8). Of an
animation the first frame counts. Colour profiles are not applied.
"""

from enum import Enum
from typing import Final, NamedTuple

from dtsflow.errors import DecodeError

MAX_PIXELS: Final = 178_956_970
"""A header that claims more is refused unread; at this size Pillow itself refuses."""

MAX_SCANS: Final = 500
"""A JPEG with more is refused: each scan costs a pass over the whole image, so a few
kilobytes could keep a decoder busy for hours. It is libjpeg-turbo's own limit."""

MAX_WORK: Final = 1 << 32
"""Pixels times scans of a JPEG beyond which it is refused, for the same reason: some
seconds of work. Twenty scans of the largest image, where ten are usual."""


class Facts(NamedTuple):
    """What is known of an image before it is decoded; after turning it upright."""

    height: int
    width: int


class Format(Enum):
    """A file format that is read; each by its signature."""

    JPEG = "JPEG"
    PNG = "PNG"
    GIF = "GIF"
    BMP = "BMP"
    WEBP = "WebP"
    TIFF = "TIFF"
    PPM = "PPM"


_SIGNATURES: Final = (
    (b"\xff\xd8\xff", Format.JPEG),
    (b"\x89PNG\r\n\x1a\n", Format.PNG),
    (b"GIF87a", Format.GIF),
    (b"GIF89a", Format.GIF),
    (b"BM", Format.BMP),
    (b"II*\0", Format.TIFF),
    (b"MM\0*", Format.TIFF),
    (b"P1", Format.PPM),
    (b"P2", Format.PPM),
    (b"P3", Format.PPM),
    (b"P4", Format.PPM),
    (b"P5", Format.PPM),
    (b"P6", Format.PPM),
)


def sniff(data: memoryview) -> Format:
    """Tell the format of `data` from its first bytes.

    Raises:
        DecodeError: There are no bytes, or they begin like none of the formats.
    """
    start = bytes(data[:12])
    if not start:
        raise DecodeError("it has zero bytes")
    if start[:4] == b"RIFF" and start[8:] == b"WEBP":
        return Format.WEBP
    for signature, found in _SIGNATURES:
        if start.startswith(signature):
            return found
    known = ", ".join(each.value for each in Format)
    raise DecodeError(f"it is no image: it begins with {start!r}, and only {known} are read")


def check_size(height: int, width: int) -> None:
    """Refuse an image that its header says is empty, or absurdly big.

    Raises:
        DecodeError: It has no pixels, or more than `MAX_PIXELS`.
    """
    if height < 1 or width < 1:
        raise DecodeError(f"its header claims {height} x {width} pixels, so there is no image")
    if height * width > MAX_PIXELS:
        raise DecodeError(
            f"its header claims {height} x {width} = {height * width} pixels, and at most "
            f"{MAX_PIXELS} are decoded"
        )
