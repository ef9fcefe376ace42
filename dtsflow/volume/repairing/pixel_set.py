"""A damaged MNIST or CIFAR file, made right again."""

from pathlib import Path

from dtsflow.volume.exact_read import opened, read_bytes
from dtsflow.volume.format import HEADER_BYTES, SMALL_AREA_BYTES
from dtsflow.volume.repairing.patch import Patch
from dtsflow.volume.verifying.fields import read_fields, strange
from dtsflow.volume.verifying.pixel_set import PixelFile, pixel_problems, read_pixel_file


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
    """Whether a copy is of the same data: both say so, or the data do."""
    return copy.crc_code in (file.crc, read_fields(file.raw)["crc_code"])


def _take_all(file: PixelFile, copy: PixelFile, patch: Patch) -> None:
    size = SMALL_AREA_BYTES + copy.payload
    with opened(copy.path) as descriptor:
        data = read_bytes(descriptor, size, 0, copy.path)
    patch.write(0, data.data, f"everything: taken from {copy.path}")
    if file.payload > copy.payload:
        patch.cut(size, f"what was behind byte {size}: cut off")
