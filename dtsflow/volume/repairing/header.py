"""Repair of a damaged header area, and of a damaged MNIST or CIFAR file."""

import zlib
from collections.abc import Sequence
from pathlib import Path

from dtsflow.volume.format.extension import EXTENSION_OFFSET
from dtsflow.volume.format.header import BLOCK_BYTES, HEADER_BYTES, SMALL_AREA_BYTES
from dtsflow.volume.format.io import combine_blocks, opened, read_bytes
from dtsflow.volume.repairing.blocks import GoodCopy
from dtsflow.volume.repairing.patch import Patch
from dtsflow.volume.verifying.block_volume import BlockVolume, HeaderArea, read_fields, strange
from dtsflow.volume.verifying.pixel_file import PixelFile, pixel_problems, read_pixel_file


def proven_header(area: HeaderArea, copy: GoodCopy | None) -> bytes | None:
    """Return the header that the index proves: its own, its copy, another file's."""
    if area.proven is not None or area.extension is None or copy is None:
        return area.proven
    return copy.area.raw if zlib.crc32(copy.area.raw) == area.extension.header_crc else None


def mend_zeros(area: HeaderArea, patch: Patch) -> None:
    """Write zeros where only zeros can be; not where an index may have been."""
    for first, last in area.stray:
        if first < EXTENSION_OFFSET or area.extension is not None or first == last:
            what = f"header area: zeros from byte {first} to {last}"
            patch.write(first, bytes(last + 1 - first), what)


def mend_header(
    volume: BlockVolume, crcs: Sequence[int], patch: Patch, copy: GoodCopy | None
) -> bytes:
    """Write the header of a volume whose index proves none, if its data prove it.

    `crcs` are those of all blocks now. Returns the header afterwards.
    """
    raw = volume.area.raw
    whole = combine_blocks(crcs, BLOCK_BYTES)
    if copy is not None and copy.is_sound and copy.crc_code == whole:
        if raw != copy.area.raw:
            patch.write(0, copy.area.raw, f"header: taken from {copy.path}")
        return copy.area.raw
    right = volume.right_header
    if raw == right and not strange(raw):
        return raw
    if whole != read_fields(raw)["crc_code"] or strange(raw):
        patch.left.append(
            "header: its data do not prove it, or a field has no one right value: give a good "
            "copy with --from"
        )
        return raw
    patch.write(0, right, "header: every field with one right value, from the blocks")
    return right


def mend_index(
    area: HeaderArea, header: bytes, crcs: Sequence[int], patch: Patch, copy: GoodCopy | None
) -> None:
    """Take a damaged or lost index from a copy of the same header and data."""
    lost = area.extension is None and any(
        last > max(first, EXTENSION_OFFSET) for first, last in area.stray
    )
    if not area.index_damage and not lost:
        return
    if copy is not None and _proves_index(copy, area, header, crcs):
        what = f"header area: from byte {EXTENSION_OFFSET} on taken from {copy.path}"
        patch.write(EXTENSION_OFFSET, copy.behind_header(), what)
    else:
        patch.left.append(
            "index: it can only be taken from a copy that has the same header, the same blocks "
            "and a good index: give one with --from"
        )


def _proves_index(copy: GoodCopy, area: HeaderArea, header: bytes, crcs: Sequence[int]) -> bool:
    extension = copy.area.extension
    if combine_blocks(crcs, BLOCK_BYTES) != read_fields(header)["crc_code"] or copy.area.stray:
        return False
    if extension is None:
        return not area.index_damage and copy.area.raw == header and copy.is_sound
    return copy.area.proven == header and extension.block_crcs.tolist() == list(crcs)


def mend_pixels(file: PixelFile, patch: Patch, good: Path | None) -> None:
    """Mend the data from a sound copy, then the header by its data, then the zeros."""
    problems, _ = pixel_problems(file)
    if not problems:
        return
    copy = read_pixel_file(good, file.kind, good.stat().st_size) if good is not None else None
    if copy is not None and not pixel_problems(copy)[0] and _is_same(file, copy):
        _take_all(file, copy, patch)
    elif file.crc != file.crc_code:
        patch.left.append(
            "its labels and pixels are not those that the header has the CRC-32 of: give a good "
            "copy with --from"
        )
    elif strange(file.raw):
        patch.left.append("header: a field has no one right value: give a good copy with --from")
    else:
        if file.raw != file.right_header:
            what = "header: every field with one right value, from the data"
            patch.write(0, file.right_header, what)
        if any(file.area[HEADER_BYTES:]):
            zeros = bytes(SMALL_AREA_BYTES - HEADER_BYTES)
            patch.write(HEADER_BYTES, zeros, "header area: zeros")


def _is_same(file: PixelFile, copy: PixelFile) -> bool:
    """Tell whether a copy is of the same data: both say so, or the data do."""
    return copy.crc_code in (file.crc, read_fields(file.raw)["crc_code"])


def _take_all(file: PixelFile, copy: PixelFile, patch: Patch) -> None:
    size = SMALL_AREA_BYTES + copy.payload
    with opened(copy.path) as descriptor:
        data = read_bytes(descriptor, size, 0, copy.path)
    patch.write(0, data.data, f"everything: taken from {copy.path}")
    if file.payload > copy.payload:
        patch.cut(size, f"what was behind byte {size}: cut off")
