"""Several data sets as one: the sources of a mix, one after the other.

`MixedSet` takes any data sets; a mix of volumes alone is a `VolumeSet`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PlanError
from dtsflow.spec import ImageSpec
from dtsflow.volume.data_set import Column, DataSet, Layout
from dtsflow.volume.datasets.volume_set import VolumeSet

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
        """Return the number of blocks of each source."""
        return tuple(source.num_blocks for source in self.sources)

    @cached_property
    def first_blocks(self) -> Ints:
        """Return the number of each source's first block."""
        blocks = np.array(self.blocks_of_sources, np.int64)
        return np.cumsum(blocks) - blocks

    @cached_property
    def first_samples(self) -> Ints:
        """Return the sample_id of each source's first sample."""
        samples = np.array([source.num_samples for source in self.sources], np.int64)
        return np.cumsum(samples) - samples

    def source_of(self, block: int) -> int:
        """Return the number of the source that has a block."""
        # One without blocks shares its first with the next: the last of them has it.
        return int(np.searchsorted(self.first_blocks, block, side="right")) - 1

    @property
    def num_blocks(self) -> int:
        """Return the number of blocks of all sources."""
        return len(self.counts)

    @property
    def num_samples(self) -> int:
        """Return the number of samples of all sources."""
        return int(self.counts.sum())

    @property
    def layout(self) -> Layout:
        """Return `pixels`, or `files` for compressed images in any kind of storage."""
        return "pixels" if self.sources[0].layout == "pixels" else "files"

    @property
    def has_blocks(self) -> bool:
        """Tell whether each source has blocks that can be permuted."""
        return all(source.has_blocks for source in self.sources)

    @property
    def has_checksums(self) -> bool:
        """Tell whether a checksum covers each byte of each source."""
        return all(source.has_checksums for source in self.sources)

    @property
    def image(self) -> ImageSpec:
        """Describe one image as it will be decoded, the same of all sources."""
        return self.sources[0].image

    @property
    def num_classes(self) -> int:
        """Return the number of classes; without names, the largest label + 1."""
        return max(source.num_classes for source in self.sources)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Return a name per label, the same of all sources; or the numbers."""
        return max((source.class_names for source in self.sources), key=len)

    @property
    def names_classes(self) -> bool:
        """Tell whether the sources name their classes."""
        return self.sources[0].names_classes

    @property
    def known_labels(self) -> None:
        """Return None: labels of some sources may have to be read (`read_labels`)."""

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the sources, one source's rows after the other's."""
        rows = [[one.values for one in source.columns] for source in self.sources]
        fields = [one.field for one in self.sources[0].columns]
        return tuple(
            Column(field, np.concatenate(parts))
            for field, *parts in zip(fields, *rows, strict=True)
        )

    @property
    def paths(self) -> Sequence[Path]:
        """Return the files and folders of all sources."""
        return [path for source in self.sources for path in source.paths]

    def block_of(self, sample_id: int) -> tuple[int, int]:
        """Return the block that holds a sample, and the sample's index in it.

        Raises:
            IndexError: There is no such sample.
        """
        if not 0 <= sample_id < self.num_samples:
            raise IndexError(f"sample {sample_id} of a mix with {self.num_samples} samples")
        block = int(np.searchsorted(self.first_ids, sample_id, side="right")) - 1
        return block, sample_id - int(self.first_ids[block])

    def where(self, sample_id: int) -> str:
        """Describe where a sample lies, in the words of its source."""
        block, _ = self.block_of(sample_id)
        number = self.source_of(block)
        return self.sources[number].where(sample_id - int(self.first_samples[number]))

    def fingerprint(self) -> str:
        """Return the SHA-256 of all sources' fingerprints, as text in their order."""
        facts = "\n".join(source.fingerprint() for source in self.sources)
        return hashlib.sha256(facts.encode()).hexdigest()


@overload
def mixed(sources: Mapping[str, VolumeSet]) -> VolumeSet: ...


@overload
def mixed(sources: Mapping[str, DataSet]) -> VolumeSet | MixedSet: ...


def mixed(sources: Mapping[str, DataSet]) -> VolumeSet | MixedSet:
    """Make the data set of a mix, from its named sources in config order.

    Blocks and sample_ids of a source start where those of the one before it end. It is
    one of volumes if all sources are.

    Raises:
        PlanError: Images, class names or columns differ; says which sources and in
            what.
    """
    (first, one), *others = sources.items()
    for name, other in others:
        _check_images(first, one, name, other)
        _check_classes(first, one, name, other)
        _check_columns(first, one, name, other)
    volumes = [source for source in sources.values() if isinstance(source, VolumeSet)]
    if len(volumes) < len(sources):
        return MixedSet(tuple(sources.values()))
    files = tuple(file for source in volumes for file in source.files)
    return VolumeSet(files, tuple(len(source.files) for source in volumes))


def _check_images(first: str, one: DataSet, name: str, other: DataSet) -> None:
    are_pixels = {source.layout == "pixels" for source in (one, other)}
    if len(are_pixels) > 1 or one.image != other.image:
        raise PlanError(
            f"reader.mix: {first} holds {_images(one)}, {name} holds {_images(other)}. Mix sources "
            "of compressed images, or pixel sets of one image size."
        )


def _images(source: DataSet) -> str:
    if source.layout != "pixels":
        return "compressed images"
    image = source.image
    return f"pixels of {image.height} x {image.width} x {image.channels}"


def _check_classes(first: str, one: DataSet, name: str, other: DataSet) -> None:
    if one.names_classes != other.names_classes:
        named, unnamed = (first, name) if one.names_classes else (name, first)
        raise PlanError(
            f"reader.mix: {named} names its classes and {unnamed} does not, so nobody can tell "
            f"whether their labels mean the same. Pack {unnamed} again, with its class names."
        )
    if not one.names_classes:
        return  # numbers in all of them
    for label, (ours, theirs) in enumerate(zip_longest(one.class_names, other.class_names)):
        if ours != theirs:
            raise PlanError(
                f"reader.mix: class {label} is {_word(ours)} in {first} and {_word(theirs)} in "
                f"{name}. The sources of a mix must have the same classes: pack one of them again, "
                "with the other's."
            )


def _check_columns(first: str, one: DataSet, name: str, other: DataSet) -> None:
    ours, theirs = ({column.field for column in source.columns} for source in (one, other))
    if [column.field for column in one.columns] != [column.field for column in other.columns]:
        field = next(iter(ours ^ theirs or ours))
        raise PlanError(
            f"reader.mix: {first} and {name} have other fields, such as {field.name!r}. Batches "
            "have the same from all sources: list the same columns, in the same order."
        )


def _word(name: str | None) -> str:
    return "missing" if name is None else repr(name)
