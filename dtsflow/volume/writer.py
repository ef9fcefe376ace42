"""Writing a block volume so that a crash leaves a whole file or none."""

import os
import secrets
import shutil
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from dtsflow.errors import PackError
from dtsflow.volume.block import fill_block
from dtsflow.volume.format import BLOCK_BYTES, BLOCK_HEADER_BYTES, SAMPLE_ALIGN, Kind
from dtsflow.volume.header import Header

Samples = tuple[Sequence[bytes], Sequence[int]]  # of one block: the bytes, the labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a header says that the blocks themselves do not tell.

    `volume_id` counts from 0; `total_blocks` of 0 means a set of this one volume.
    `source_bytes` are those of the original images, for the compression ratio.
    """

    level: int
    is_training: bool
    num_blocks: int
    num_classes: int
    max_pic_area: int
    source_bytes: int
    volume_id: int = 0
    num_volumes: int = 1
    total_blocks: int = 0


def write_volume(destination: Path, facts: Facts, blocks: Iterable[Samples]) -> Header:
    """Write a volume from `facts.num_blocks` blocks, each held in memory in turn.

    The file appears under its name only when all of it is on the disk. Whatever fails
    or stops the writer, its own temporary file is removed and nothing else.

    Raises:
        PackError: The destination exists, the disk lacks the space, or writing failed.
    """
    refuse_existing(destination)
    check_space(destination.parent, (1 + facts.num_blocks) * BLOCK_BYTES)
    with _replacing(destination) as file:
        counts, crc = _write_blocks(file, facts, blocks)
        header = _header(facts, counts, crc)
        file.truncate(header.total_bytes)
        file.seek(0)
        # Last, so that a file with a header is a file with all its blocks.
        file.write(header.to_bytes())
    return header


def refuse_existing(destination: Path) -> None:
    """Raise PackError if something lies where a volume is to be written."""
    if destination.exists() or destination.is_symlink():
        raise PackError(
            f"{destination} exists already, and a volume is never overwritten. Remove it, or "
            "choose another name or folder."
        )


def check_space(folder: Path, wanted: int) -> None:
    """Raise PackError if `folder` is missing or has less than `wanted` bytes left."""
    if not folder.is_dir():
        raise PackError(f"{folder} is no folder. Make it first, or choose another.")
    free = shutil.disk_usage(folder).free
    if free < wanted:
        raise PackError(
            f"{folder} has {free} bytes free, the volume takes {wanted}. Free some, or write "
            "to another disk."
        )


def _write_blocks(file: BinaryIO, facts: Facts, blocks: Iterable[Samples]) -> tuple[list[int], int]:
    memory = np.empty(BLOCK_BYTES, np.uint8)
    counts: list[int] = []
    crc = 0
    for block, (samples, labels) in enumerate(blocks):
        used = fill_block(memory, block=block, level=facts.level, samples=samples, labels=labels)
        crc = zlib.crc32(memory.data, crc)
        file.seek((1 + block) * BLOCK_BYTES)
        # The zeros behind are a hole, which reads as zeros and takes no space.
        file.write(memory[:used].data)
        counts.append(len(samples))
    assert len(counts) == facts.num_blocks
    return counts, crc


def _header(facts: Facts, counts: Sequence[int], crc: int) -> Header:
    total_bytes = (1 + facts.num_blocks) * BLOCK_BYTES
    return Header(
        dataset_type=Kind.IMAGENET,
        is_training=facts.is_training,
        compress_level=facts.level,
        num_classes=facts.num_classes,
        num_samples=sum(counts),
        num_volumes=facts.num_volumes,
        volume_id=facts.volume_id,
        total_blocks=facts.total_blocks or facts.num_blocks,
        num_blocks=facts.num_blocks,
        total_bytes=total_bytes,
        header_bytes=BLOCK_BYTES,
        block_bytes=facts.num_blocks * BLOCK_BYTES,
        block_size=BLOCK_BYTES,
        block_header_size=BLOCK_HEADER_BYTES[facts.level],
        pic_alignment=SAMPLE_ALIGN,
        max_pic_area=facts.max_pic_area,
        max_pic_per_block=max(counts, default=0),
        # Output over input with the header area, as upstream defines it.
        compression_ratio=total_bytes / max(facts.source_bytes, 1),
        crc_code=crc,
    )


@contextmanager
def _replacing(destination: Path) -> Iterator[BinaryIO]:
    """A new file that takes its name if the block ends well, and is gone if not."""
    # Hidden, in the same folder: a scan never sees it and the rename stays on one disk.
    temporary = destination.with_name(f".{destination.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        refuse_existing(destination)
        temporary.rename(destination)
    except OSError as error:
        raise PackError(
            f"{destination} could not be written: {error}. Nothing was left behind; check "
            "the disk and its free space, then try again."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(destination.parent)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # elsewhere a folder cannot be opened, and a rename needs no such help
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
