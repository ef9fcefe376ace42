"""Decoding by Pillow, and of samples that are stored as pixels.

Pillow decodes every format that libjpeg-turbo declines. MNIST and CIFAR volumes store
pixels.
"""

import io
import struct
import zlib
from typing import Final

import numpy as np
import PIL
from PIL import Image as PillowImage
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.PpmImagePlugin import PpmImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile
from pydantic import Field, model_validator

from dtsflow.config.configurable import configurable
from dtsflow.decode.decoder import (
    UPRIGHT,
    Encoded,
    Facts,
    Format,
    Image,
    MaxErrors,
    OnError,
    Orientation,
    SdmpFactor,
    StoreBytes,
    check_size,
    one_of_both,
    read_orientation,
    sniff,
    turn_upright,
    upright_size,
)
from dtsflow.decode.jpeg_header import read_jpeg, without_metadata
from dtsflow.errors import DecodeError
from dtsflow.spec import ImageSpec

# Opened by class, because Image.open would also try plugins that start programs (EPS),
# and because it warns of a big image before its size can be checked: a warning cannot
# be caught in one thread alone.
_READERS: Final[dict[Format, type[ImageFile]]] = {
    Format.JPEG: JpegImageFile,
    Format.PNG: PngImageFile,
    Format.GIF: GifImageFile,
    Format.BMP: BmpImageFile,
    Format.WEBP: WebPImageFile,
    Format.TIFF: TiffImageFile,
    Format.PPM: PpmImageFile,
}
# What Pillow was seen to raise on damaged files. A Warning is raised where the process
# runs with warnings as errors.
_REFUSALS: Final = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    EOFError,
    RuntimeError,
    AssertionError,
    struct.error,
    zlib.error,
    PillowImage.DecompressionBombError,
    Warning,
)


@configurable
class Pillow:
    """Decode everything with Pillow.

    `scaled` decodes a JPEG at a half, a quarter or an eighth where the chain begins by
    scaling it down at least as much: faster, with slightly other pixels. `on_error` is
    what becomes of a bad sample; `max_errors`, a safety stop, ends the run after more.

    With `sdmp_factor` K a sample is decoded once for K epochs: the rows of the later
    ones are made at the same time and kept. With `cpvs`, for a chain that draws
    nothing, rows are made once and kept for good. They may take `store_bytes` on each
    rank, `auto` being what the memory limit leaves; what has no room is decoded again,
    with the same pixels.
    """

    orientation: Orientation = "ignore"
    scaled: bool = False
    on_error: OnError = "raise"
    # No pixel depends on it, so the repr, which digests are made of, leaves it out.
    max_errors: MaxErrors = Field(default=None, repr=False)
    # A plan's facts have the factor; on the others no pixel depends.
    sdmp_factor: SdmpFactor = Field(default=1, repr=False)
    cpvs: bool = Field(default=False, repr=False)
    store_bytes: StoreBytes = Field(default="auto", repr=False)

    _check = model_validator(mode="after")(one_of_both)

    @property
    def allows_native(self) -> bool:
        """Return False: whoever chooses Pillow wants Pillow."""
        return False

    def start(self) -> "PillowDecoder":
        """Make the decoder of one worker."""
        return PillowDecoder(self.orientation)

    def describe(self) -> str:
        """Name the library and its version, for the plan."""
        return f"pillow {PIL.__version__}"


class PillowDecoder:
    """Decodes whatever Pillow reads; satisfies Decoder.

    Pillow reports no warnings of libjpeg's, so a JPEG damaged inside a scan may pass.
    A TIFF is always turned upright, by Pillow, and of a damaged one libtiff complains
    on standard error as well.
    """

    def __init__(self, orientation: Orientation) -> None:
        self._turns = orientation == "apply"

    def probe(self, data: Encoded) -> Facts:
        """Read the size from the header, with the orientation applied if so configured.

        Raises:
            DecodeError: The bytes are not an image, or not a whole JPEG.
        """
        view = memoryview(data)
        if sniff(view) is Format.JPEG:
            header = read_jpeg(view)
            height, width, orientation = header.height, header.width, header.orientation
        else:
            image, orientation = _open(view)
            width, height = image.size
        return upright_size(height, width, orientation if self._turns else UPRIGHT)

    def scales(self, data: Encoded) -> bool:
        """Tell whether it is a JPEG, as far as its first bytes say."""
        return sniff(memoryview(data)) is Format.JPEG

    def decode(self, data: Encoded, scale: int = 1) -> Image:
        """Decode the whole image to RGB, at one part in `scale` of its size.

        Raises:
            DecodeError: The bytes are not a whole image, or Pillow refused them.
        """
        image, orientation = _open(memoryview(data))
        width, height = image.size
        claimed = (-(-width // scale), -(-height // scale))
        if scale > 1:
            image.draft(None, (width // scale, height // scale))
        try:
            pixels = _to_rgb(image)
        except _REFUSALS as error:
            raise _refusal(error) from error
        if pixels.shape != (claimed[1], claimed[0], 3):
            raise DecodeError(
                f"its header claims {claimed[1]} x {claimed[0]} pixels and its data holds "
                f"{pixels.shape[0]} x {pixels.shape[1]}"
            )
        return turn_upright(pixels, orientation) if self._turns else pixels


def _open(data: memoryview) -> tuple[ImageFile, int]:
    """Read the header; give the image, still without pixels, and its orientation."""
    found = sniff(data)
    if found is Format.JPEG:
        # Pillow would look for a resolution in the metadata, and warn of damage there.
        header = read_jpeg(data)
        stored, orientation = without_metadata(data, header), header.orientation
    else:
        stored, orientation = bytes(data), None
    try:
        image = _READERS[found](io.BytesIO(stored))
    except _REFUSALS as error:
        raise _refusal(error) from error
    check_size(image.height, image.width)
    if orientation is None:
        exif = image.info.get("exif")
        orientation = read_orientation(exif) if isinstance(exif, bytes) else UPRIGHT
    return image, orientation


def _to_rgb(image: ImageFile) -> Image:
    image.load()
    if image.mode == "F":
        raise DecodeError("its pixels are 32-bit floats, which have no stated range")
    if image.mode.startswith("I"):  # 16 bits a pixel, kept in 16 or in 32
        values = np.clip(np.asarray(image), 0, 0xFFFF)
        gray = (values >> 8).astype(np.uint8)
        return np.repeat(gray[:, :, None], 3, axis=2)
    image.info.pop("transparency", None)  # dropped; left in, Pillow warns that it drops it
    return np.asarray(image.convert("RGB"))


def _refusal(error: Exception) -> DecodeError:
    return DecodeError(f"Pillow cannot decode it: {str(error) or type(error).__name__}")


class PixelDecoder:
    """Views stored pixels as the images they are; every image has the size of `image`.

    Satisfies Decoder.
    """

    def __init__(self, image: ImageSpec) -> None:
        assert image.height is not None
        assert image.width is not None
        self._facts = Facts(image.height, image.width)
        self._shape = (image.height, image.width, image.channels)

    def probe(self, data: Encoded) -> Facts:
        """Give the one size there is.

        Raises:
            DecodeError: `data` has not exactly one image's bytes.
        """
        self._check(data)
        return self._facts

    def scales(self, data: Encoded) -> bool:  # noqa: ARG002  # pixels never do
        """Return False: there is nothing to decode."""
        return False

    def decode(self, data: Encoded, scale: int = 1) -> Image:
        """View `data` as an image; nothing is copied, so it lives as long as `data`.

        Raises:
            DecodeError: `data` has not exactly one image's bytes.
        """
        assert scale == 1
        self._check(data)
        return np.frombuffer(data, np.uint8).reshape(self._shape)

    def _check(self, data: Encoded) -> None:
        height, width, channels = self._shape
        stored = memoryview(data).nbytes
        if stored != height * width * channels:
            raise DecodeError(
                f"it has {stored} bytes, and {height} x {width} x {channels} pixels take "
                f"{height * width * channels}"
            )
