"""Whether the numbers of a header fit together."""

from pathlib import Path

from dtsflow.errors import HeaderError
from dtsflow.volume.format import (
    BLOCK_BYTES,
    BLOCK_HEADER_BYTES,
    HEADER_BYTES,
    LEVELS,
    SMALL_AREA_BYTES,
)
from dtsflow.volume.header import Header, interrupted
from dtsflow.volume.small import SMALL_SETS


def check(header: Header, path: Path) -> None:
    """Refuse a header that no healthy file of its kind has.

    Words that healthy files get wrong (UPSTREAM 1.6) are not looked at.

    Raises:
        HeaderError: Names the field, what it says, what it must say.
    """
    _expect(path, "tensor_layout", header.tensor_layout, "NHWC")
    if header.dataset_type.in_blocks:
        _check_blocks(header, path)
    else:
        _check_small(header, path)
    if header.volume_id >= header.num_volumes:
        raise HeaderError(
            f"{path}: volume_id is {header.volume_id} of num_volumes {header.num_volumes}; "
            "ids count from 0. The header is damaged: copy or export the file again."
        )


def _check_blocks(header: Header, path: Path) -> None:
    if header.num_blocks == 0 and header.crc_code == 0:
        raise interrupted(path)
    if header.compress_level not in LEVELS:
        raise HeaderError(
            f"{path}: the level is {header.compress_level}, it must be one of "
            f"{', '.join(map(str, LEVELS))}. The header is damaged: copy or export the "
            "file again."
        )
    blocks = header.num_blocks
    expected = {
        "num_channels": 3,
        "header_bytes": BLOCK_BYTES,
        "block_size": BLOCK_BYTES,
        "block_header_size": BLOCK_HEADER_BYTES[header.compress_level],
        "block_bytes": blocks * BLOCK_BYTES,
        "total_bytes": (1 + blocks) * BLOCK_BYTES,
    }
    for name, value in expected.items():
        _expect(path, name, getattr(header, name), value)


def _check_small(header: Header, path: Path) -> None:
    layout = SMALL_SETS[header.dataset_type]
    expected = {
        "num_channels": layout.channels,
        "image_width": layout.width,
        "image_height": layout.height,
        "header_bytes": SMALL_AREA_BYTES,
        "block_header_size": 0,
        "num_volumes": 1,
    }
    for name, value in expected.items():
        _expect(path, name, getattr(header, name), value)


def _expect(path: Path, name: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise HeaderError(
            f"{path}: {name} is {found!r} in the header, this kind of file has {wanted!r}. "
            f"The {HEADER_BYTES}-byte header is damaged: copy or export the file again."
        )
