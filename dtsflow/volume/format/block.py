"""One 16 MiB block: its index in front, the samples behind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from dtsflow.errors import BlockError
from dtsflow.volume.format.header import (
    BLOCK_BYTES,
    BLOCK_CAPACITY,
    BLOCK_HEADER_BYTES,
    BLOCK_MAGIC,
    BLOCK_PREFIX_BYTES,
    LARGEST_LABEL,
    aligned,
)


@dataclass(frozen=True, slots=True, eq=False)
class BlockIndex:
    """The samples' offsets in one block; they count from the block's first byte."""

    offsets: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.offsets)


def parse_block(
    memory: npt.NDArray[np.uint8] | bytes, *, path: Path, block: int, level: int
) -> BlockIndex:
    """Read and check the index of block number `block` (in its file).

    `memory` starts with the block and needs to reach over its header only (4096 bytes
    at level 0, 16384 above), so the same check serves a scan and a whole block. No
    sample byte is looked at. The result holds no view of `memory`.

    Raises:
        BlockError: Names the file, the block, the sample, both numbers and the cure.
    """
    count = _parse_prefix(memory, path, block, level)
    words = np.frombuffer(memory, "<u4", 3 * count, offset=BLOCK_PREFIX_BYTES)
    # Hostile sizes wrap in 32 bits; in 64 they cannot.
    offsets, sizes, labels = words.astype(np.int64).reshape(3, count)
    ends = offsets + sizes
    place = f"block {block} of {path}"
    front = BLOCK_HEADER_BYTES[level]
    _refuse_first(
        offsets < front, place, lambda i: f"starts at byte {offsets[i]}, inside the index ({front})"
    )
    _refuse_first(
        ends > BLOCK_BYTES,
        place,
        lambda i: (
            f"starts at byte {offsets[i]} and has {sizes[i]}, so it ends at {ends[i]}, "
            f"past the block's {BLOCK_BYTES}"
        ),
    )
    _refuse_first(
        offsets[1:] < ends[:-1],
        place,
        lambda i: f"ends at byte {ends[i]}, after sample {i + 1} starts ({offsets[i + 1]})",
    )
    _refuse_first(
        labels > LARGEST_LABEL, place, lambda i: f"has label {labels[i]}, over {LARGEST_LABEL}"
    )
    return BlockIndex(offsets, sizes, labels.astype(np.int32))


def fill_block(
    memory: npt.NDArray[np.uint8],
    *,
    block: int,
    level: int,
    samples: Sequence[bytes],
    labels: Sequence[int],
) -> int:
    """Lay out one block in `memory` (16 MiB, all written); give the bytes used."""
    assert len(memory) == BLOCK_BYTES
    assert len(samples) == len(labels) <= BLOCK_CAPACITY[level]
    offset = BLOCK_HEADER_BYTES[level]
    memory[:offset] = 0
    offsets = []
    for sample in samples:
        end, following = offset + len(sample), offset + aligned(len(sample))
        assert following <= BLOCK_BYTES
        memory[offset:end] = np.frombuffer(sample, np.uint8)
        memory[end:following] = 0
        offsets.append(offset)
        offset = following
    memory[offset:] = 0
    sizes = [len(sample) for sample in samples]
    head = (
        BLOCK_MAGIC[level]
        + np.array([block, len(samples), *offsets, *sizes, *labels], "<u4").tobytes()
    )
    memory[: len(head)] = np.frombuffer(head, np.uint8)
    return offset


def _parse_prefix(memory: npt.NDArray[np.uint8] | bytes, path: Path, block: int, level: int) -> int:
    assert len(memory) >= BLOCK_HEADER_BYTES[level]
    magic = bytes(memory[:4])
    number, count = (int(word) for word in np.frombuffer(memory, "<u4", 2, offset=4))
    if magic != BLOCK_MAGIC[level]:
        _refuse(
            f"block {block} of {path} starts with {magic!r}, a level {level} block with "
            f"{BLOCK_MAGIC[level]!r}. An image larger than a block shifts all that follow "
            "when it is exported; else the file is damaged"
        )
    if number != block:
        _refuse(f"block {block} of {path} says it is block {number}: blocks were swapped or lost")
    if count > BLOCK_CAPACITY[level]:
        _refuse(
            f"block {block} of {path} counts {count} samples, its index holds "
            f"{BLOCK_CAPACITY[level]} at level {level}"
        )
    return count


def _refuse_first(wrong: npt.NDArray[np.bool_], place: str, what: Callable[[int], str]) -> None:
    if wrong.any():
        sample = int(np.argmax(wrong))
        _refuse(f"{place}: sample {sample} {what(sample)}")


def _refuse(what: str) -> NoReturn:
    raise BlockError(f"{what}. Export the file again, or copy it from a good one.")
