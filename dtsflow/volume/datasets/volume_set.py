"""A data set of one or more volumes: which sample lies where."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtsflow.errors import BlockError
from dtsflow.spec import ImageSpec
from dtsflow.volume.data_set import Column, Layout
from dtsflow.volume.format.block import BlockIndex, parse_block
from dtsflow.volume.format.file import VolumeFile
from dtsflow.volume.format.header import BLOCK_BYTES, BLOCK_HEADER_BYTES, SMALL_AREA_BYTES, Kind
from dtsflow.volume.format.io import crc32
from dtsflow.volume.format.pixel_file import SMALL_SETS, SmallSet


@dataclass(frozen=True, slots=True)
class BlockSpan:
    """The bytes of one block on disk; `number_in_file` counts from 0 in `path`."""

    path: Path
    offset: int
    nbytes: int
    number_in_file: int


@dataclass(frozen=True, slots=True, eq=False)
class VolumeSet:
    """A whole data set in volumes, described; satisfies DataSet.

    Blocks are numbered through all files in volume order, empty ones included, and a
    sample's id is its index in that order. An MNIST or CIFAR file counts as one block.
    `counts` and `first_ids` have one read-only entry per block.

    A mix is the files of all its sources, one source after the other (`mixed.py`);
    `files_of_sources` has the number of files of each. They may differ in level and
    size only.
    """

    files: tuple[VolumeFile, ...]
    files_of_sources: tuple[int, ...] = ()
    counts: npt.NDArray[np.int64] = field(init=False, repr=False)
    first_ids: npt.NDArray[np.int64] = field(init=False, repr=False)
    first_blocks: npt.NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        assert self.files
        assert sum(self.files_of_sources) in (0, len(self.files))
        counts = np.concatenate([file.counts for file in self.files])
        blocks = np.array([len(file.counts) for file in self.files], np.int64)
        derived = {
            "counts": counts,
            "first_ids": np.cumsum(counts) - counts,
            "first_blocks": np.cumsum(blocks) - blocks,
        }
        for name, values in derived.items():
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    @property
    def kind(self) -> Kind:
        """Return what the set holds."""
        return self.files[0].header.dataset_type

    @property
    def layout(self) -> Layout:
        """Return `blocks` of compressed images, or `pixels` after all labels."""
        return "blocks" if self.kind.in_blocks else "pixels"

    @property
    def has_blocks(self) -> bool:
        """Tell whether blocks can be permuted; else only single samples can."""
        return self.kind.in_blocks

    @property
    def paths(self) -> Sequence[Path]:
        """Return the volumes."""
        return [file.path for file in self.files]

    @property
    def known_labels(self) -> None:
        """Return None: labels lie in front of the blocks; `read_labels` reads them."""

    @property
    def level(self) -> int:
        """Return the level of compression, 0 to 3; always 0 for pixels.

        In a mix it is the level of the first source.
        """
        return _level(self.files[0])

    @property
    def is_training(self) -> bool:
        """Tell whether the header calls it a training set."""
        return self.files[0].header.is_training

    @property
    def num_blocks(self) -> int:
        """Return the number of blocks of all files."""
        return len(self.counts)

    @property
    def blocks_of_sources(self) -> tuple[int, ...]:
        """Return the number of blocks of each source of a mix; empty without one."""
        counts = [len(file.counts) for file in self.files]
        ends = accumulate(self.files_of_sources, initial=0)
        return tuple(sum(counts[first:last]) for first, last in pairwise(ends))

    @property
    def num_samples(self) -> int:
        """Return the number of samples of all files."""
        return int(self.first_ids[-1] + self.counts[-1]) if self.num_blocks else 0

    @property
    def num_classes(self) -> int:
        """Return the number of named classes; without names, the largest label + 1."""
        return len(self._names) or 1 + max(file.largest_label for file in self.files)

    @property
    def names_classes(self) -> bool:
        """Tell whether the volumes name their classes."""
        return bool(self._names)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Return a name per label; the number where the volumes hold no names."""
        return self._names or tuple(map(str, range(self.num_classes)))

    def class_name(self, label: int) -> str:
        """Return the name of one class, without building all of them."""
        return self._names[label] if self._names else str(label)

    @property
    def image(self) -> ImageSpec:
        """Describe one image as decoded; sides are None where images differ."""
        if self.kind.in_blocks:
            return ImageSpec(None, None, 3)
        return ImageSpec(self._small.height, self._small.width, self._small.channels)

    def span(self, block: int) -> BlockSpan:
        """Return the byte range of block number `block` of the set.

        A pixel file's one block is everything after the header area: labels, pixels.
        """
        number, file = self._locate(block)
        if self.kind.in_blocks:
            return BlockSpan(file.path, (1 + number) * BLOCK_BYTES, BLOCK_BYTES, number)
        nbytes = file.num_samples * self._small.record_bytes
        return BlockSpan(file.path, SMALL_AREA_BYTES, nbytes, 0)

    def index_bytes(self, block: int) -> int:
        """Return how many leading bytes of a block's span `index` needs to see."""
        if not self.kind.in_blocks:
            return int(self.counts[block])
        return BLOCK_HEADER_BYTES[_level(self._locate(block)[1])]

    def index(self, block: int, memory: npt.NDArray[np.uint8]) -> BlockIndex:
        """Check the bytes just read from `span(block)`; say where samples lie in them.

        `memory` is the whole span, or at least its first `index_bytes(block)`.

        Raises:
            BlockError: The index is damaged, or not the one that was scanned.
        """
        number, file = self._locate(block)
        if not self.kind.in_blocks:
            return self._small.index(memory, file.num_samples, file.path)
        index = parse_block(memory, path=file.path, block=number, level=_level(file))
        if len(index) != self.counts[block]:
            raise BlockError(
                f"block {number} of {file.path} has {len(index)} samples, it had "
                f"{self.counts[block]} when it was scanned. The file was replaced: start again."
            )
        return index

    def fingerprint(self) -> str:
        """Return the SHA-256 of each volume's size, header, counts and index CRC.

        Paths and times do not count, so a copied set is the same set.
        """
        state = hashlib.sha256()
        for file in self.files:
            state.update(file.size.to_bytes(8, "little"))
            state.update(file.header.to_bytes())
            state.update(np.ascontiguousarray(file.counts, "<i8").tobytes())
            if file.extension is not None:
                state.update(file.extension.crc.to_bytes(4, "little"))
        return state.hexdigest()

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return no column: volumes have labels only."""
        return ()

    @property
    def has_checksums(self) -> bool:
        """Tell whether each block has a checksum for `check_content` to check."""
        return not self.kind.in_blocks or all(file.extension is not None for file in self.files)

    def check_content(self, block: int, memory: npt.NDArray[np.uint8]) -> None:
        """Check the whole bytes of a block against its checksum, where it has one.

        A block has one in the extension index, a pixel set in its header. The header of
        a block volume without an index covers all blocks together, which cannot be
        checked here.

        Raises:
            BlockError: They differ.
        """
        number, file = self._locate(block)
        if not self.kind.in_blocks:
            found, wanted = crc32(memory.data), file.header.crc_code
            if found != wanted:
                raise BlockError(
                    f"{file.path} is damaged: its labels and pixels have the CRC-32 "
                    f"{found:#010x}, and its header says {wanted:#010x}. Copy or export it again."
                )
            return
        if file.extension is None:
            return
        found, wanted = crc32(memory.data), int(file.extension.block_crcs[number])
        if found != wanted:
            raise BlockError(
                f"block {number} of {file.path} is damaged: it has the CRC-32 {found:#010x}, the "
                f"index says {wanted:#010x}. `dtsflow verify` tells more, `dtsflow repair` mends "
                "it from the sources or a good copy."
            )

    def block_of(self, sample_id: int) -> tuple[int, int]:
        """Return the block that holds a sample, and the sample's index in it.

        Raises:
            IndexError: The set has no such sample.
        """
        if not 0 <= sample_id < self.num_samples:
            raise IndexError(f"sample {sample_id} of a set with {self.num_samples} samples")
        # Empty blocks share their first id with the next one: the last of them has it.
        block = int(np.searchsorted(self.first_ids, sample_id, side="right")) - 1
        return block, sample_id - int(self.first_ids[block])

    def where(self, sample_id: int) -> str:
        """Describe where a sample lies: file, block in it, sample in that."""
        block, sample = self.block_of(sample_id)
        number, file = self._locate(block)
        inside = f"block {number} " if self.kind.in_blocks else ""
        return f"{file.path.name} {inside}sample {sample}"

    @property
    def _names(self) -> tuple[str, ...]:
        """Return the names of all classes; empty where a block volume holds none."""
        if not self.kind.in_blocks:
            return self._small.class_names
        extension = self.files[0].extension
        return () if extension is None else extension.about.class_names

    @property
    def _small(self) -> SmallSet:
        return SMALL_SETS[self.kind]

    def _locate(self, block: int) -> tuple[int, VolumeFile]:
        if not 0 <= block < self.num_blocks:
            raise IndexError(f"block {block} of a set with {self.num_blocks} blocks")
        which = int(np.searchsorted(self.first_blocks, block, side="right")) - 1
        return block - int(self.first_blocks[which]), self.files[which]


def _level(file: VolumeFile) -> int:
    return file.header.compress_level if file.header.dataset_type.in_blocks else 0
