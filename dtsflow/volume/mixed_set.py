"""Several data sets as one, of which some were not packed."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtsflow.spec import ImageSpec
from dtsflow.volume.columns import Column
from dtsflow.volume.data_set import DataSet, Layout

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MixedSet:
    """The sources of a mix, one after the other; satisfies DataSet.

    They agree in what an image is, in classes and columns. Blocks and sample_ids of a
    source start where those of the one before it end.

    Attributes:
        sources: The data sets.
        counts: Samples of each block.
        first_ids: The sample_id of each block's first sample.
    """

    sources: tuple[DataSet, ...]
    counts: Ints = field(init=False, repr=False)
    first_ids: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        counts = np.concatenate([source.counts for source in self.sources])
        for name, values in {"counts": counts, "first_ids": np.cumsum(counts) - counts}.items():
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    @property
    def blocks_of_sources(self) -> tuple[int, ...]:
        """The number of blocks of each source."""
        return tuple(source.num_blocks for source in self.sources)

    @cached_property
    def first_blocks(self) -> Ints:
        """The number of each source's first block."""
        blocks = np.array(self.blocks_of_sources, np.int64)
        return np.cumsum(blocks) - blocks

    @cached_property
    def first_samples(self) -> Ints:
        """The sample_id of each source's first sample."""
        samples = np.array([source.num_samples for source in self.sources], np.int64)
        return np.cumsum(samples) - samples

    def source_of(self, block: int) -> int:
        """Which of the sources has a block."""
        # One without blocks shares its first with the next: the last of them has it.
        return int(np.searchsorted(self.first_blocks, block, side="right")) - 1

    @property
    def num_blocks(self) -> int:
        """Blocks of all sources."""
        return len(self.counts)

    @property
    def num_samples(self) -> int:
        """Samples of all sources."""
        return int(self.counts.sum())

    @property
    def layout(self) -> Layout:
        """`pixels`, or `files` for compressed images wherever they lie."""
        return "pixels" if self.sources[0].layout == "pixels" else "files"

    @property
    def has_blocks(self) -> bool:
        """Whether each source has blocks that can be permuted."""
        return all(source.has_blocks for source in self.sources)

    @property
    def has_checksums(self) -> bool:
        """Whether a checksum covers each byte of each source."""
        return all(source.has_checksums for source in self.sources)

    @property
    def image(self) -> ImageSpec:
        """One image as it will be decoded, the same of all sources."""
        return self.sources[0].image

    @property
    def num_classes(self) -> int:
        """Classes; where they have no names, the largest label of any source + 1."""
        return max(source.num_classes for source in self.sources)

    @property
    def class_names(self) -> tuple[str, ...]:
        """A name per label, the same of all sources; or the numbers."""
        return max((source.class_names for source in self.sources), key=len)

    @property
    def names_classes(self) -> bool:
        """Whether the sources say what their classes are called."""
        return self.sources[0].names_classes

    @property
    def known_labels(self) -> None:
        """None: those of some sources may have to be read; `read_labels` does."""

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Those that the sources have, one source's rows after the other's."""
        rows = [[one.values for one in source.columns] for source in self.sources]
        fields = [one.field for one in self.sources[0].columns]
        return tuple(
            Column(field, np.concatenate(parts))
            for field, *parts in zip(fields, *rows, strict=True)
        )

    @property
    def paths(self) -> Sequence[Path]:
        """The files and folders of all sources."""
        return [path for source in self.sources for path in source.paths]

    def block_of(self, sample_id: int) -> tuple[int, int]:
        """The block that holds a sample, and the sample's index in it.

        Raises:
            IndexError: There is no such sample.
        """
        if not 0 <= sample_id < self.num_samples:
            raise IndexError(f"sample {sample_id} of a mix with {self.num_samples} samples")
        block = int(np.searchsorted(self.first_ids, sample_id, side="right")) - 1
        return block, sample_id - int(self.first_ids[block])

    def where(self, sample_id: int) -> str:
        """A sample's place as its source says it."""
        block, _ = self.block_of(sample_id)
        number = self.source_of(block)
        return self.sources[number].where(sample_id - int(self.first_samples[number]))

    def fingerprint(self) -> str:
        """SHA-256 over the fingerprints of all sources, as text in their order."""
        facts = "\n".join(source.fingerprint() for source in self.sources)
        return hashlib.sha256(facts.encode()).hexdigest()
