"""Images to stored bytes: decoding, scaling, cutting and writing JPEG with Pillow.

`add_restarts` adds restart markers to a JPEG: between them a part can be decoded alone.
A decoder that wants a window has to read all coded data above it and beside it, unless
markers say where a row's parts begin. They cost about a hundredth of a file, which
better coding tables win back. Coefficients and metadata stay, so all pixels do.
"""

import contextlib
import io
import os
import struct
import zlib
from dataclasses import dataclass
from types import ModuleType
from typing import BinaryIO, Final

import numpy as np
from PIL import Image, ImageFile, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from dtsflow.errors import PackError
from dtsflow.native.core import load, why_absent
from dtsflow.volume.format.header import aligned
from dtsflow.volume.packing.options import Recipe
from dtsflow.volume.source.base import Stored

# Only what is sniffed and decoded in this process; Pillow hands EPS to another program.
FORMATS: Final = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
END_OF_IMAGE: Final = b"\xff\xd9"  # without it no run would decode the JPEG

_JPEGS = ("JPEG", "MPO")  # the second holds several; the first is taken
_HEAD, _TAIL = 1 << 14, 1 << 10  # bytes: nearly all headers and end markers lie there
_LARGEST = (1 << 16) - 1  # of a 16-bit pixel
_ORIENTATION = 0x0112  # the EXIF tag
_SHRINKING = (95, 90, 85, 80, 70, 60, 50)  # qualities, tried in turn
_TURNS = range(2, 9)  # its values that mean something else than upright
# What Pillow raises on damaged files of one format or another.
_REFUSALS: Final = (
    OSError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)


class Unusable(Exception):  # noqa: N818  # no error: a verdict on one image
    """An image cannot be packed; the text says why."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """An image as it will be stored."""

    data: bytes
    width: int
    height: int


def measure(data: bytes) -> tuple[int, int]:
    """Read the width and the height from the header.

    Raises:
        Unusable: They are not an image, or a JPEG that was cut short.
    """
    return _open(data).size


def measure_stored(stored: Stored) -> tuple[int, int]:
    """Measure as `measure` does, and read no more of the bytes than it takes.

    Raises:
        Unusable: As `measure`.
        OSError, PackError: They cannot be read.
    """
    if stored.size > _HEAD + _TAIL:
        head, tail = stored.read_parts((0, _HEAD), (stored.size - _TAIL, _TAIL))
        with contextlib.suppress(Unusable):  # some headers are longer, some at the end
            image = _open(head, tail)
            if image.format != "TIFF":  # its facts lie anywhere, and missing ones are guessed
                return image.size
    return measure(stored.read())


def encode(data: bytes, recipe: Recipe) -> Encoded:
    """Make the image that `recipe` describes.

    The EXIF orientation is kept and never applied, except for TIFF, which Pillow turns
    upright. A JPEG's comment is kept, as Pillow does. Gray stays gray and CMYK stays
    CMYK. Alpha is dropped, a palette is looked up, and of 16 bits the upper 8 are kept.

    Raises:
        Unusable: Pillow cannot decode them, or cannot write them as JPEG.
    """
    image = _open(data)
    try:
        image.load()  # a PNG may say something behind its pixels
        _settle_comment(image, recipe)
        if recipe.upstream:
            return _save(_upstream_mode(_shape(image, recipe)), recipe, 0)
        # After loading, which turns a TIFF and takes the tag away.
        orientation = _orientation(image)
        return _save(_shape(_plain_mode(image), recipe), recipe, orientation)
    except _REFUSALS as error:
        raise Unusable(f"cannot be decoded or encoded: {_said(error)}") from error


def shrink(data: bytes, capacity: int) -> Encoded:
    """Encode an image again, with as much quality as lets it fit `capacity` bytes.

    Raises:
        Unusable: It is not an image, or too large at any reasonable quality.
    """
    for quality in _SHRINKING:
        encoded = encode(data, Recipe(boundary=1 << 16, crops=False, quality=quality))
        if aligned(len(encoded.data)) <= capacity:
            return encoded
    raise Unusable(f"does not fit a block ({capacity} bytes) even at quality {_SHRINKING[-1]}")


def rgb_histogram(data: bytes) -> list[int]:
    """Count each value in red, green and blue, 256 numbers each.

    Raises:
        Unusable: The image cannot be decoded.
    """
    image = _open(data)
    try:
        return _plain_mode(image).convert("RGB").histogram()
    except _REFUSALS as error:
        raise Unusable(f"cannot be decoded: {_said(error)}") from error


def _open(data: bytes, tail: bytes | None = None) -> ImageFile.ImageFile:
    """Open the image, no pixels read yet; with `tail`, `data` may end early."""
    if not data:
        raise Unusable("the file is empty")
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError as error:
        raise Unusable("not an image that can be read") from error
    except Image.DecompressionBombError as error:
        raise Unusable(_said(error)) from error
    except _REFUSALS as error:
        raise Unusable(f"not an image that can be read: {_said(error)}") from error
    if image.format in _JPEGS and not _has_end(image, data, tail):
        raise Unusable("a JPEG without an end-of-image marker: it was cut short")
    return image


def _has_end(image: ImageFile.ImageFile, data: bytes, tail: bytes | None) -> bool:
    """Tell whether the picture ends; a thumbnail in the header has its own end mark."""
    # Pillow stops reading at the first scan, and goes back to the start of an MPO.
    opened = JpegImageFile(io.BytesIO(data)) if image.format == "MPO" else image
    assert opened.fp is not None
    first_scan = opened.fp.tell()
    if tail is not None:
        return first_scan < len(data) and END_OF_IMAGE in tail
    return data.rfind(END_OF_IMAGE, first_scan) >= 0


def _settle_comment(image: Image.Image, recipe: Recipe) -> None:
    """Keep what a JPEG can say; a longer one, counted in letters, makes Pillow hang."""
    comment = image.info.get("comment")
    if isinstance(comment, str):
        image.info["comment"] = comment.encode("utf-8", "replace")
    if image.format not in _JPEGS and not recipe.upstream:
        image.info.pop("comment", None)


def _shape(image: Image.Image, recipe: Recipe) -> Image.Image:
    size = recipe.scaled(*image.size)
    if size != image.size:
        image = image.resize(size, Image.Resampling.LANCZOS)
    box = recipe.window(*image.size)
    return image if box is None else image.crop(box)


def _upstream_mode(image: Image.Image) -> Image.Image:
    image.info.pop("transparency", None)  # dropped; left in, Pillow warns that it drops it
    return image.convert("RGB") if image.mode in ("RGBA", "LA", "P") else image


def _plain_mode(image: Image.Image) -> Image.Image:
    """Convert to Gray, RGB or CMYK with 8 bits."""
    image.load()
    if image.mode in ("L", "RGB", "CMYK"):
        return image
    if image.mode == "F":
        raise ValueError("its pixels are 32-bit floats, which have no stated range")
    if image.mode.startswith("I"):  # 16 bits a pixel, kept in 16 or in 32
        values = np.asarray(image)
        if values.min() < 0 or values.max() > _LARGEST:
            raise ValueError("its pixels have more than 16 bits, with no stated range")
        return Image.fromarray((values >> 8).astype(np.uint8))
    image.info.pop("transparency", None)  # dropped; left in, Pillow warns that it drops it
    return image.convert("L" if image.mode in ("1", "LA", "La") else "RGB")


def _orientation(image: Image.Image) -> int:
    try:
        value = image.getexif().get(_ORIENTATION, 0)
    except _REFUSALS:
        return 0  # damaged metadata says nothing
    return value if isinstance(value, int) and value in _TURNS else 0


def _save(image: Image.Image, recipe: Recipe, orientation: int) -> Encoded:
    options: dict[str, object] = {"quality": recipe.quality}
    if recipe.subsampling is not None:
        options["subsampling"] = recipe.subsampling
    if orientation:
        exif = Image.Exif()
        exif[_ORIENTATION] = orientation
        options["exif"] = exif.tobytes()
    with _scratch_file() as file:
        image.save(file, "JPEG", **options)
        size = file.tell()
        file.seek(0)
        return Encoded(file.read(size), *image.size)


def _scratch_file() -> BinaryIO:
    """Open a file in memory: into a descriptor Pillow writes without the GIL."""
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):  # out of descriptors, which is not the image's fault
            return os.fdopen(os.memfd_create("dtsflow"), "w+b", buffering=0)
    return io.BytesIO()


def _said(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def check_restarts() -> None:
    """Raise PackError where no markers can be written."""
    _core()


def add_restarts(data: bytes) -> bytes:
    """Add restart markers to an image; return `data` itself if it is not a plain JPEG.

    Raises:
        PackError: The native core is absent.
    """
    made: bytes | None = _core().add_restarts(data)
    return data if made is None else made


def _core() -> ModuleType:
    core = load()
    if core is None:
        raise PackError(f"restart markers are written by the native core, but {why_absent()}.")
    return core
