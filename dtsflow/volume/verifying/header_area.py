"""The first 16 MiB of a block volume: header, extension index, zeros."""

import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtsflow.errors import HeaderError
from dtsflow.volume.exact_read import opened, read_into
from dtsflow.volume.extension import (
    EXTENSION_MAGIC,
    EXTENSION_OFFSET,
    PREFIX_BYTES,
    Extension,
    extension_bytes,
)
from dtsflow.volume.format import BLOCK_BYTES, HEADER_BYTES
from dtsflow.volume.verifying.report import Problem, told

Span = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class HeaderArea:
    """The header area as it is; nothing in it needs to be right.

    `raw` are the 144 bytes of the header. `index_damage` says what is wrong with the
    index; then `extension` is None, as it is in a volume without one. `stray` are spans
    of bytes that must be zero, from the first to the last that is not.
    """

    path: Path
    size: int
    raw: bytes
    extension: Extension | None
    index_damage: str
    stray: tuple[Span, ...]

    @property
    def proven(self) -> bytes | None:
        """The header's 144 bytes as they were written, if the index proves them."""
        if self.extension is None:
            return None
        copies = (self.raw, self.extension.about.header)
        right = self.extension.header_crc
        return next((c for c in copies if len(c) == HEADER_BYTES and zlib.crc32(c) == right), None)

    def problems(self) -> list[Problem]:
        """What is wrong with the index and the zeros; the header is not looked at."""
        found = [
            Problem(self.path, "header area", None, None, _stray_text(span)) for span in self.stray
        ]
        if self.index_damage:
            found.append(Problem(self.path, "index", None, None, self.index_damage))
        elif self.extension is not None and self.proven != self.extension.about.header:
            what = "its copy of the header is not the header that it has the CRC-32 of"
            found.append(Problem(self.path, "index", None, None, what))
        return found


def read_header_area(path: Path) -> HeaderArea:
    """Read the header area of a block volume, which may be cut short.

    Raises:
        VolumeError: The file cannot be read.
    """
    with opened(path) as descriptor:
        size = os.fstat(descriptor).st_size
        area = np.zeros(BLOCK_BYTES, np.uint8)
        there = min(size, BLOCK_BYTES)
        read_into(descriptor, area[:there], 0, path)
    raw = area[:HEADER_BYTES].tobytes()
    behind = area[EXTENSION_OFFSET:]
    stray = _nonzero(area, HEADER_BYTES, EXTENSION_OFFSET)
    if not _has_index(behind):
        return HeaderArea(path, size, raw, None, "", stray + _nonzero(area, EXTENSION_OFFSET, None))
    try:
        total = extension_bytes(behind[:PREFIX_BYTES].tobytes(), path)
        extension = Extension.parse(behind[:total].tobytes(), path)
    except HeaderError as error:
        # Where a damaged index ends is not known, so what lies behind it is not either.
        return HeaderArea(path, size, raw, None, told(error, path), stray)
    stray += _nonzero(area, EXTENSION_OFFSET + total, None)
    return HeaderArea(path, size, raw, extension, "", stray)


def _has_index(behind: npt.NDArray[np.uint8]) -> bool:
    """Whether an index, damaged or not, lies there: its magic or all else says so."""
    if behind[:4].tobytes() == EXTENSION_MAGIC:
        return True
    return bool(behind[:PREFIX_BYTES].any() and behind[PREFIX_BYTES:].any())


def _nonzero(area: npt.NDArray[np.uint8], start: int, stop: int | None) -> tuple[Span, ...]:
    part = area[start:stop]
    if not part.any():
        return ()
    places = np.flatnonzero(part)
    return ((start + int(places[0]), start + int(places[-1])),)


def _stray_text(span: Span) -> str:
    first, last = span
    where = f"byte {first} is" if first == last else f"bytes between {first} and {last} are"
    return f"{where} not zero, as all but the header and the index must be"
