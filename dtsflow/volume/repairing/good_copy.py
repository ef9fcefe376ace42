"""Another file of the same volume, to take right bytes from."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dtsflow.errors import VolumeError
from dtsflow.volume.exact_read import opened, read_bytes, read_into
from dtsflow.volume.extension import EXTENSION_OFFSET
from dtsflow.volume.format import BLOCK_BYTES
from dtsflow.volume.verifying.block_volume import BlockVolume, read_block_volume
from dtsflow.volume.verifying.blocks import Means
from dtsflow.volume.verifying.fields import read_fields
from dtsflow.volume.verifying.header_area import HeaderArea, read_header_area
from dtsflow.volume.verifying.structure import Memory
from dtsflow.volume.verifying.volume_problems import volume_problems


@dataclass(frozen=True, eq=False)
class GoodCopy:
    """A copy of a block volume; it may be damaged as well, elsewhere.

    All of it is read only where no single block can be proven alone.
    """

    area: HeaderArea
    workers: int

    @property
    def path(self) -> Path:
        """The file."""
        return self.area.path

    @cached_property
    def volume(self) -> BlockVolume:
        """All of the copy."""
        return read_block_volume(self.area, Means(None, self.workers, _ignore))

    @cached_property
    def is_sound(self) -> bool:
        """Whether nothing in it is wrong; its manifest does not count."""
        problems, _ = volume_problems(self.volume)
        return all(problem.part == "manifest" for problem in problems)

    @property
    def crc_code(self) -> int:
        """The CRC-32 of all blocks that its header says."""
        return int(read_fields(self.area.raw)["crc_code"])

    @property
    def crcs(self) -> tuple[int, ...]:
        """The CRC-32 of each block as it is."""
        return tuple(one.crc or 0 for one in self.volume.facts)

    def read(self, block: int, memory: Memory) -> bool:
        """Fill `memory` with a block; whether the copy has it and could be read."""
        try:
            with opened(self.path) as descriptor:
                return read_into(descriptor, memory, (1 + block) * BLOCK_BYTES, self.path)
        except VolumeError:
            return False  # the caller says which block could not be had from anywhere

    def behind_header(self) -> bytes:
        """The header area from the index on."""
        with opened(self.path) as descriptor:
            size = BLOCK_BYTES - EXTENSION_OFFSET
            return read_bytes(descriptor, size, EXTENSION_OFFSET, self.path).tobytes()


def open_copy(path: Path, workers: int) -> GoodCopy:
    """Look at the header area of a copy.

    Raises:
        VolumeError: It cannot be read.
    """
    return GoodCopy(read_header_area(path), workers)


def _ignore() -> None:
    """Report nothing."""
