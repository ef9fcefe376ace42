"""What kind of volume a file is, damaged or not."""

from pathlib import Path

from dtsflow.volume.exact_read import opened, read_bytes
from dtsflow.volume.extension import EXTENSION_MAGIC, EXTENSION_OFFSET
from dtsflow.volume.format import BLOCK_BYTES, BLOCK_MAGIC, HEADER_BYTES, Kind
from dtsflow.volume.small import SMALL_SETS
from dtsflow.volume.verifying.fields import differences, read_fields
from dtsflow.volume.verifying.pixel_set import right_small_header

_ALIKE = 6  # fields in which a damaged header may differ from its kind's


def recognise(path: Path, size: int) -> Kind | None:
    """The kind of a volume: as its header says, else as most of the file does.

    Raises:
        VolumeError: The file cannot be read.
    """
    if size < HEADER_BYTES:
        return None
    with opened(path) as descriptor:
        raw = read_bytes(descriptor, HEADER_BYTES, 0, path).tobytes()
        marks = [
            read_bytes(descriptor, 4, place, path).tobytes() if size >= place + 4 else b""
            for place in (EXTENSION_OFFSET, BLOCK_BYTES)
        ]
    for kind in Kind:
        if raw[8:16] == kind.value.rjust(8).encode():
            return kind
    if marks[0] == EXTENSION_MAGIC or marks[1] in BLOCK_MAGIC:
        return Kind.IMAGENET
    if raw[:4] == b".DTS" and read_fields(raw)["header_bytes"] == BLOCK_BYTES:
        return Kind.IMAGENET
    samples = read_fields(raw)["num_samples"]
    unlike = {
        kind: len(differences(raw, right_small_header(raw, kind, samples))) for kind in SMALL_SETS
    }
    likely = min(unlike, key=lambda kind: unlike[kind])
    return likely if unlike[likely] <= _ALIKE else None
