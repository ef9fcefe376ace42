"""A block volume as it is on disk, damaged or not."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from dtsflow.volume.checksum import combine_blocks
from dtsflow.volume.exact_read import opened, read_bytes
from dtsflow.volume.format import BLOCK_BYTES, LEVELS
from dtsflow.volume.verifying.blocks import BlockFacts, Means, check_blocks
from dtsflow.volume.verifying.expected import Shape, likely_shape, right_header
from dtsflow.volume.verifying.fields import read_fields
from dtsflow.volume.verifying.header_area import HeaderArea

_LOOKED_AT = 64  # blocks whose magic is asked for the level


@dataclass(frozen=True, eq=False)
class BlockVolume:
    """A block volume as it is on disk, with what its parts say about each other.

    `facts` are of the blocks that are there in full: the first ones of `shape`.
    """

    area: HeaderArea
    shape: Shape
    facts: tuple[BlockFacts, ...]

    @property
    def path(self) -> Path:
        """The file."""
        return self.area.path

    @property
    def is_interrupted(self) -> bool:
        """Whether the exporter stopped before it wrote the header."""
        return self.area.proven is None and not any(self.area.raw[8:])

    @property
    def is_whole(self) -> bool:
        """Whether every block is there and could be read, and nothing else is."""
        return self.area.size == (1 + self.shape.num_blocks) * BLOCK_BYTES and all(
            one.crc is not None for one in self.facts
        )

    @cached_property
    def right_header(self) -> bytes:
        """The header's bytes as they should be: proven by the index, else as likely."""
        sound = self.is_whole and not any(one.findings for one in self.facts)
        return self.area.proven or right_header(
            self.area.raw,
            self.shape,
            self.facts if sound else (),
            is_upstream=self.area.extension is None and not self.area.index_damage,
        )

    @cached_property
    def crc(self) -> int | None:
        """The CRC-32 of all blocks as they are; None if the file is not whole."""
        if not self.is_whole:
            return None
        return combine_blocks((one.crc or 0 for one in self.facts), BLOCK_BYTES)

    @property
    def header_crc_code(self) -> int:
        """The CRC-32 of all blocks that the header says."""
        return int(read_fields(self.right_header)["crc_code"])

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Samples per block: of the index, else of the blocks that are there."""
        if self.area.extension is not None:
            return tuple(self.area.extension.counts.tolist())
        return tuple(one.count for one in self.facts)

    @property
    def first_ids(self) -> tuple[int, ...]:
        """The id in the file of each block's first sample."""
        counts = np.array(self.counts, np.int64)
        return tuple((np.cumsum(counts) - counts).tolist())

    def wanted_crc(self, block: int) -> int | None:
        """What the index says about a block; None if it says nothing."""
        crcs = self.area.extension.block_crcs if self.area.extension is not None else ()
        return int(crcs[block]) if block < len(crcs) else None

    def is_right(self, one: BlockFacts) -> bool:
        """Whether a block is as it was written, as far as its own checks can tell."""
        wanted = self.wanted_crc(one.block)
        return not one.findings if wanted is None else one.crc == wanted

    def is_moved(self, one: BlockFacts) -> bool:
        """Whether a block lies whole in the wrong place."""
        return (
            one.number != one.block
            and one.crc is not None
            and (one.crc == self.wanted_crc(one.number))
        )


def read_block_volume(area: HeaderArea, means: Means) -> BlockVolume:
    """Read all blocks that a file has, whatever its header says.

    Raises:
        VolumeError: The file cannot be opened.
    """
    raw = area.proven or area.raw
    shape = likely_shape(raw, area.size, _magics(area.path, area.size))
    if area.proven is not None:
        fields = read_fields(area.proven)
        level = fields["compress_level"] if fields["compress_level"] in LEVELS else shape.level
        shape = Shape(level, fields["num_blocks"])
    blocks = min(shape.num_blocks, max(area.size // BLOCK_BYTES - 1, 0))
    facts = check_blocks(area.path, blocks, shape.level, means)
    return BlockVolume(area, shape, tuple(facts))


def _magics(path: Path, size: int) -> list[bytes]:
    blocks = max(size // BLOCK_BYTES - 1, 0)
    step = max(blocks // _LOOKED_AT, 1)
    with opened(path) as descriptor:
        return [
            read_bytes(descriptor, 4, (1 + block) * BLOCK_BYTES, path).tobytes()
            for block in range(0, blocks, step)
        ]
