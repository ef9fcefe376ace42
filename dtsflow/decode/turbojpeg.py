"""Decoding by libjpeg-turbo, through PyTurboJPEG; the only module that imports it."""

import ctypes
import os
import re
from pathlib import Path
from typing import Final, NoReturn

from turbojpeg import DEFAULT_LIB_PATHS, TJFLAG_ACCURATEDCT, TJPF_RGB, TurboJPEG

from dtsflow.decode.decoder import Encoded, Facts, Format, Image, Orientation, sniff, turn_upright
from dtsflow.decode.jpeg_header import JpegHeader, read_jpeg
from dtsflow.decode.pillow import PillowDecoder
from dtsflow.errors import DecodeError, MissingPartError

LIBRARIES: Final = (
    "libturbojpeg.so.0",
    "libturbojpeg.dylib",
    *sorted(path for paths in DEFAULT_LIB_PATHS.values() for path in paths),
)
# Exactly what TurboJPEG 2.1 can name; on these it equals Pillow's own libjpeg-turbo.
_PROCESSES: Final = frozenset({0xC0, 0xC1, 0xC2})  # baseline, extended, progressive
_LUMA: Final = frozenset({(1, 1), (2, 1), (2, 2), (1, 2), (4, 1)})
_CHROMA: Final = ((1, 1), (1, 1))
_BITS: Final = 8
_TINY: Final = 8
_REPORTER: Final = "_TurboJPEG__report_error"


class TurboDecoder:
    """Decodes JPEGs with libjpeg-turbo and all else with Pillow; satisfies Decoder.

    A decoder may be shared: the library makes a decompressor for each call.

    Raises:
        MissingPartError: libturbojpeg, or the right PyTurboJPEG, is not installed.
    """

    def __init__(self, orientation: Orientation) -> None:
        self._turns = orientation == "apply"
        self._library = load()
        self._pillow = PillowDecoder(orientation)

    def probe(self, data: Encoded) -> Facts:
        """Read the size from the header, with the orientation applied if so configured.

        Raises:
            DecodeError: The bytes are not an image, or not a whole JPEG.
        """
        return self._pillow.probe(data)

    def scales(self, data: Encoded) -> bool:
        """Tell whether it is a JPEG, as far as its first bytes say."""
        return self._pillow.scales(data)

    def decode(self, data: Encoded, scale: int = 1) -> Image:
        """Decode the whole image to RGB, at one part in `scale` of its size.

        Raises:
            DecodeError: The bytes are not an image or a whole JPEG, or the library
                reported an error or a warning.
        """
        view = memoryview(data)
        if sniff(view) is not Format.JPEG:
            return self._pillow.decode(view, scale)
        header = read_jpeg(view)
        # TurboJPEG finds the scale by the size of what comes out, and of a few pixels
        # 1/2 and 5/8 make the same: such tiny images are Pillow's.
        is_ambiguous = scale > 1 and max(header.height, header.width) < _TINY
        if is_ambiguous or not is_ours(header):
            return self._pillow.decode(view, scale)
        part = (1, scale) if scale > 1 else None
        image: Image = self._library.decode(view, TJPF_RGB, part, TJFLAG_ACCURATEDCT)
        if image.shape[:2] != (-(-header.height // scale), -(-header.width // scale)):
            raise DecodeError(
                f"its header claims {header.height} x {header.width} pixels and "
                f"libjpeg-turbo finds {image.shape[0]} x {image.shape[1]}"
            )
        return turn_upright(image, header.orientation) if self._turns else image


def is_ours(header: JpegHeader) -> bool:
    """Tell whether TurboJPEG decodes this kind of JPEG to RGB.

    It declines four components (CMYK and YCCK), more than 8 bits, lossless and
    arithmetic coding, and uncommon chroma sampling.
    """
    sampling = header.sampling
    colour = len(sampling) == 3 and sampling[0] in _LUMA and sampling[1:] == _CHROMA  # noqa: PLR2004  # YCbCr or RGB
    return (
        header.process in _PROCESSES
        and header.precision == _BITS
        and (len(sampling) == 1 or colour)
    )


class _Strict(TurboJPEG):  # type: ignore[misc]  # the package is untyped
    """PyTurboJPEG, with a warning of libjpeg-turbo's as much a failure as an error."""

    # PyTurboJPEG passes a warning to warnings.warn and returns the damaged pixels. What
    # becomes of a warning is a setting of the process, so no thread can tell that its
    # own image had one. Its private reporter sees errors and warnings: pinned below 2.
    def _TurboJPEG__report_error(self, handle: int) -> NoReturn:  # noqa: N802
        reason: str = self._TurboJPEG__get_error_string(handle)
        raise DecodeError(f"libjpeg-turbo: {reason}")


def load() -> TurboJPEG:
    """Load libturbojpeg.

    Raises:
        MissingPartError: It is not installed, or PyTurboJPEG is of another generation.
    """
    if not hasattr(TurboJPEG, _REPORTER):
        raise MissingPartError(
            "this PyTurboJPEG reports errors in a way dtsflow does not know: install "
            "'PyTurboJPEG>=1.7.3,<2'"
        )
    name, _ = _open()
    try:
        return _Strict(name)
    except AttributeError as error:  # a function of version 2 is absent
        raise MissingPartError(
            f"{name} is too old ({error}): install libturbojpeg0, version 2 or later"
        ) from error


def turbo_version() -> str | None:
    """Return the version of libturbojpeg, `unknown` if its file hides it.

    None without it.
    """
    try:
        _, library = _open()
    except MissingPartError:
        return None
    place = _Place()
    # TurboJPEG 2 has no call for it, but its file holds the text, for a message.
    function = ctypes.cast(library.tjInitDecompress, ctypes.c_void_p)
    if not ctypes.CDLL(None).dladdr(function, ctypes.byref(place)):
        return "unknown"
    text = Path(os.fsdecode(place.file)).read_bytes()
    found = re.search(rb"libjpeg-turbo version (\d+(?:\.\d+)+)", text)
    return found[1].decode() if found else "unknown"


class _Place(ctypes.Structure):
    """Dl_info of dlfcn.h: where an address was loaded from."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _open() -> tuple[str, ctypes.CDLL]:
    # By name, since PyTurboJPEG's own search starts a program to look for the library,
    # and starting one after MPI was initialised can corrupt its memory.
    for name in LIBRARIES:
        try:
            return name, ctypes.CDLL(name)
        except OSError:
            continue
    raise MissingPartError("libturbojpeg not found: install libturbojpeg0 (Debian, Ubuntu)")
