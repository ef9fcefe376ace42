"""Writing a block volume so that a crash leaves a whole file or none."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from dtsflow.volume.format.block import fill_block
from dtsflow.volume.format.header import BLOCK_BYTES, Facts, Header, block_header
from dtsflow.volume.format.io import check_space, crc32, refuse_existing, replacing

Samples = tuple[Sequence[bytes], Sequence[int]]  # of one block: the bytes, the labels


def write_volume(destination: Path, facts: Facts, blocks: Iterable[Samples]) -> Header:
    """Write a volume from `facts.num_blocks` blocks, each held in memory in turn.

    The file appears under its name only when all of it is on the disk. If something
    fails or stops the writer, its own temporary file is removed and nothing else.

    Raises:
        PackError: The destination exists, the disk lacks the space, or writing failed.
    """
    refuse_existing(destination)
    check_space(destination.parent, (1 + facts.num_blocks) * BLOCK_BYTES)
    with replacing(destination) as file:
        counts, crc = _write_blocks(file, facts, blocks)
        header = block_header(facts, counts, crc)
        file.truncate(header.total_bytes)
        file.seek(0)
        # Last, so that a file with a header is a file with all its blocks.
        file.write(header.to_bytes())
    return header


def _write_blocks(file: BinaryIO, facts: Facts, blocks: Iterable[Samples]) -> tuple[list[int], int]:
    memory = np.empty(BLOCK_BYTES, np.uint8)
    counts: list[int] = []
    crc = 0
    for block, (samples, labels) in enumerate(blocks):
        used = fill_block(memory, block=block, level=facts.level, samples=samples, labels=labels)
        crc = crc32(memory.data, crc)
        file.seek((1 + block) * BLOCK_BYTES)
        # The zeros behind are a hole, which reads as zeros and takes no space.
        file.write(memory[:used].data)
        counts.append(len(samples))
    assert len(counts) == facts.num_blocks
    return counts, crc
