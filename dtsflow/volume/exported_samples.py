"""Stored samples as an export writes them, and whether they are sound."""

import io

import numpy as np
from PIL import Image

from dtsflow.errors import BlockError, VolumeError
from dtsflow.volume.file import VolumeFile
from dtsflow.volume.volume_set import VolumeSet


def png(volumes: VolumeSet, data: memoryview) -> memoryview:
    """A sample of a set of pixels as a PNG."""
    image = volumes.image
    assert image.height is not None
    assert image.width is not None
    pixels = np.frombuffer(data, np.uint8).reshape(image.height, image.width, image.channels)
    stored = io.BytesIO()
    Image.fromarray(pixels[..., 0] if image.channels == 1 else pixels).save(stored, "PNG")
    return stored.getbuffer()


def check_block(file: VolumeFile, number: int, crc: int) -> None:
    """Raise BlockError if a block of a file has another CRC-32 than its index says."""
    if file.extension is not None and crc != file.extension.block_crcs[number]:
        raise BlockError(
            f"block {number} of {file.path} is damaged: it has the CRC-32 {crc:#010x}, the "
            f"index says {file.extension.block_crcs[number]:#010x}. Run `dtsflow repair "
            f"{file.path}`, then export again."
        )


def check_whole(file: VolumeFile, crc: int) -> None:
    """Raise VolumeError if all samples have another CRC-32 than the header says."""
    if crc != file.header.crc_code:
        raise VolumeError(
            f"{file.path} is damaged: its samples have the CRC-32 {crc:#010x}, its header says "
            f"{file.header.crc_code:#010x}. Run `dtsflow verify {file.path}` to see where."
        )
