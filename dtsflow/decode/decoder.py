"""The contract of a decoder: two calls that turn one stored sample into an image.

The settings of decoding are here, too: the EXIF orientation (how a camera was held, and
turning its picture upright), the treatment of a bad sample by `decode.on_error`, and
decoding once for several epochs. For every decoder the rules of an image are the same:

A stored sample is decoded to RGB, uint8, height x width x channels. Its content decides
what it is, never its name. Gray is replicated; CMYK and YCCK become what Pillow's
`convert("RGB")` makes of them; a palette is looked up; alpha and transparency are
dropped without blending; of 16 bits a channel the high 8 are kept (value >> 8). Of an
animation the first frame counts. Colour profiles are not applied.
"""

import struct
from enum import Enum
from typing import Annotated, Final, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
from pydantic import Field

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
    """The facts known of an image before it is decoded; after turning it upright."""

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
        DecodeError: The sample is empty, or they begin like none of the formats.
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


Encoded = bytes | bytearray | memoryview
"""One stored sample: contiguous bytes, read and never kept."""

Image = npt.NDArray[np.uint8]
"""Height x width x channels, uint8, contiguous; possibly read-only."""


class Decoder(Protocol):
    """Decodes samples for one worker. A DecodeError carries the reason and no more.

    Whoever knows the volume, block, index, label and id adds them to the message.
    """

    def probe(self, data: Encoded) -> Facts:
        """Read the size from the header; the same that `decode` will give.

        Raises:
            DecodeError: The sample is bad, as far as can be seen without decoding it.
        """

    def scales(self, data: Encoded) -> bool:
        """Tell whether `decode` can give this sample at a part of its size: a JPEG."""

    def decode(self, data: Encoded, scale: int = 1) -> Image:
        """Decode the whole image, at 1/`scale` (1, 2, 4, 8), sides rounded up.

        Raises:
            DecodeError: The sample is bad.
        """


Orientation = Literal["ignore", "apply"]
"""`ignore` keeps the pixels as stored, as torchvision's loaders do; `apply` turns."""

UPRIGHT: Final = 1
_EXIF: Final = b"Exif\0\0"
_TAG: Final = 0x0112
_VALUE: Final = {3: "H", 4: "I"}  # a SHORT by the standard; some writers store a LONG


def read_orientation(exif: bytes) -> int:
    """Find the orientation, 1 to 8, in an EXIF segment with or without its `Exif` mark.

    Damaged or missing metadata means upright: it says nothing against the pixels.
    """
    tiff = exif.removeprefix(_EXIF)
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    if order is None:
        return UPRIGHT
    try:
        (directory,) = struct.unpack_from(order + "I", tiff, 4)
        (count,) = struct.unpack_from(order + "H", tiff, directory)
        for entry in range(directory + 2, directory + 2 + 12 * count, 12):
            tag, kind, values = struct.unpack_from(order + "HHI", tiff, entry)
            if tag == _TAG and kind in _VALUE and values == 1:
                (found,) = struct.unpack_from(order + _VALUE[kind], tiff, entry + 8)
                return int(found) if found in range(1, 9) else UPRIGHT
    except struct.error:  # an offset or a count that points past the end
        return UPRIGHT
    return UPRIGHT


def upright_size(height: int, width: int, orientation: int) -> Facts:
    """Return the size after `turn_upright`: orientations 5 to 8 lie on their side."""
    return Facts(width, height) if orientation >= 5 else Facts(height, width)  # noqa: PLR2004  # EXIF's numbers


def turn_upright(image: Image, orientation: int) -> Image:
    """Turn and mirror `image` as its EXIF orientation asks; always contiguous."""
    if orientation >= 5:  # noqa: PLR2004  # EXIF's numbers
        image = image.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        image = image[::-1]
    if orientation in (2, 3, 6, 7):
        image = image[:, ::-1]
    return np.ascontiguousarray(image)


OnError = Literal["raise", "replace", "mask"]
"""`raise` ends the run with an error that names the sample; `replace` puts the next
good sample of its block in its row; `mask` leaves the row empty, `valid` False."""

MaxErrors = Annotated[int, Field(ge=0, strict=True)] | None
"""More bad samples than this end the run; None: any number may come."""


MAX_FACTOR = 1 << 16

SdmpFactor = Annotated[int, Field(ge=1, le=MAX_FACTOR, strict=True)]
"""K of SDMP: epochs with equal ⌊epoch / K⌋ have the same lanes, and share a decode."""

StoreBytes = Annotated[int, Field(ge=0, strict=True)] | Literal["auto"]
"""What kept rows may occupy on each rank; `auto`: what the memory limit leaves."""


@runtime_checkable
class CachingDecode(Protocol):
    """A way to decode that says so; others decode in every epoch."""

    @property
    def sdmp_factor(self) -> int:
        """K: a decoded sample goes through the chain for the rest of K epochs."""

    @property
    def cpvs(self) -> bool:
        """Tell whether rows that are the same in all epochs are made once."""

    @property
    def store_bytes(self) -> int | Literal["auto"]:
        """Return the bytes that rows kept for later epochs may occupy on each rank."""


T = TypeVar("T", bound=CachingDecode)


def one_of_both(decode: T) -> T:
    """Validate a way to decode: SDMP and CPVS cannot both be.

    Raises:
        ValueError: They are.
    """
    if decode.sdmp_factor > 1 and decode.cpvs:
        raise ValueError(
            f"sdmp_factor={decode.sdmp_factor} makes rows that differ from epoch to epoch, and "
            "cpvs=true keeps rows that are the same in all. Set one of them for this phase: "
            "sdmp_factor=1, or cpvs=false."
        )
    return decode
