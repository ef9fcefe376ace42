"""The header of a JPEG, read without a decoder.

Every decoder judges a JPEG by this same reading, so they agree on its size and on
whether it is whole, and one library's leniency is never another's error.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from dtsflow.decode.decoder import MAX_SCANS, MAX_WORK, UPRIGHT, check_size, read_orientation
from dtsflow.errors import DecodeError

_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE: Final = frozenset({0x01, *range(0xD0, 0xD8)})  # TEM and RSTn have no length
_LEAD, _SOI, _EOI, _SOS, _APP1 = 0xFF, 0xD8, 0xD9, 0xDA, 0xE1


@dataclass(frozen=True, slots=True)
class JpegHeader:
    """The facts that the markers before the first scan state.

    `process` is the frame marker's second byte (0xC0 baseline, 0xC2 progressive),
    `sampling` one (horizontal, vertical) pair a component, `metadata` the places of the
    APP1 segments, and `scan` the place of the first scan's marker.
    """

    height: int
    width: int
    process: int
    precision: int
    sampling: tuple[tuple[int, int], ...]
    orientation: int
    metadata: tuple[slice, ...]
    scan: int


def read_jpeg(data: memoryview) -> JpegHeader:
    """Read the header of a JPEG and check that the file is whole.

    Raises:
        DecodeError: The markers make no sense, the size is refused, there is no
            end-of-image marker behind the first scan, or there are too many scans.
    """
    frame: tuple[int, memoryview] | None = None
    orientation: int | None = None
    metadata: list[slice] = []
    scan = 0
    for marker, place in _segments(data):
        body = data[place.start + 4 : place.stop]
        if marker == _SOS:
            scan = place.start
        elif marker in _FRAMES:
            if frame is not None:
                raise DecodeError("its JPEG header describes two frames")
            frame = marker, body
        elif marker == _APP1:
            metadata.append(place)
            if orientation is None and bytes(body[:6]) == b"Exif\0\0":
                orientation = read_orientation(bytes(body))
    if frame is None:
        raise DecodeError("its JPEG header describes no frame before the first scan")
    process, body = frame
    precision, height, width, sampling = _read_frame(body)
    check_size(height, width)
    _check_scans(bytes(data[scan:]), height * width)
    return JpegHeader(
        height, width, process, precision, sampling, orientation or UPRIGHT, tuple(metadata), scan
    )


def without_metadata(data: memoryview, header: JpegHeader) -> bytes:
    """Copy a JPEG without its APP1 segments, which no pixel depends on."""
    kept = []
    start = 0
    for place in header.metadata:
        kept.append(data[start : place.start])
        start = place.stop
    return b"".join([*kept, data[start:]])


def _segments(data: memoryview) -> Iterator[tuple[int, slice]]:
    """Yield each marker with its place, from its 0xFF on, up to the first scan's."""
    at = 2  # behind the start-of-image marker
    marker = _SOI
    while marker != _SOS:
        marker, at = _next_marker(data, at)
        if marker in _BARE:
            continue
        if marker in (0, _SOI, _EOI):
            raise DecodeError(f"marker {marker:#04x} stands in its JPEG header before byte {at}")
        length = int.from_bytes(data[at : at + 2], "big")
        if length < 2 or at + length > len(data):  # noqa: PLR2004  # the length counts itself
            raise _cut_short(at)
        yield marker, slice(at - 2, at + length)
        at += length


def _next_marker(data: memoryview, start: int) -> tuple[int, int]:
    """Read the marker at `start`, led in by any number of 0xFF, and where it ends."""
    at = start
    while at < len(data) and data[at] == _LEAD:
        at += 1
    if at == len(data):
        raise _cut_short(at)
    if at == start:
        raise DecodeError(
            f"byte {start} of its JPEG header is {data[start]:#04x} where a marker must be"
        )
    return data[at], at + 1


def _read_frame(body: memoryview) -> tuple[int, int, int, tuple[tuple[int, int], ...]]:
    components = body[5] if len(body) > 5 else 0  # noqa: PLR2004  # precision, height, width
    if not components or len(body) != 6 + 3 * components:
        raise DecodeError(
            f"its JPEG frame header has {len(body)} bytes for {components} components"
        )
    factors = [body[place] for place in range(7, len(body), 3)]
    return (
        body[0],
        int.from_bytes(body[1:3], "big"),
        int.from_bytes(body[3:5], "big"),
        tuple((factor >> 4, factor & 15) for factor in factors),
    )


def _check_scans(coded: bytes, pixels: int) -> None:
    # Coded data escapes 0xFF, so there these two bytes are the marker and nothing else.
    # The thumbnail in the metadata has an end of its own; hence only from the scan on.
    if coded.rfind(b"\xff\xd9") < 0:
        raise DecodeError("it is a JPEG without an end-of-image marker: it was cut short")
    stored = np.frombuffer(coded, np.uint8)  # bytes.count takes six times as long
    scans = np.count_nonzero((stored[:-1] == _LEAD) & (stored[1:] == _SOS))
    if scans > MAX_SCANS or scans * pixels > MAX_WORK:
        most = min(MAX_SCANS, MAX_WORK // pixels)
        raise DecodeError(f"it is a JPEG of {scans} scans, and at most {most} are decoded")


def _cut_short(start: int) -> DecodeError:
    return DecodeError(f"its JPEG header is cut short or damaged at byte {start}")
