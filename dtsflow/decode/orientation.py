"""The EXIF orientation: how a camera was held, and turning its picture upright."""

import struct
from typing import Final, Literal

import numpy as np

from dtsflow.decode.decoder import Image
from dtsflow.decode.policy import Facts

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
    """The size after `turn_upright`: orientations 5 to 8 lie on their side."""
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
