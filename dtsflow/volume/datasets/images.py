"""A data set that was not packed: images one by one in a folder or in archives.

`NameList` keeps many names in little memory, and `ImageRuns` where images lie.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt

from dtsflow.errors import SetError
from dtsflow.spec import ImageSpec
from dtsflow.volume.data_set import Column, Layout
from dtsflow.volume.source.base import NO_CLASS, Listing, SourceImage


class NameList(Sequence[str]):
    """Names as one run of bytes: a million names as text objects take 100 MB.

    Any name that a file can have is kept, whether or not it is valid UTF-8.
    """

    def __init__(self, names: Iterable[str]) -> None:
        encoded = [os.fsencode(name) for name in names]
        self._bytes = b"".join(encoded)
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        self._starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> "NameList": ...
    def __getitem__(self, number: int | slice) -> "str | NameList":
        if isinstance(number, slice):
            return self.taken(np.arange(len(self))[number])
        if not 0 <= number < len(self):
            raise IndexError(f"name {number} of {len(self)}")
        return os.fsdecode(self._bytes[self._starts[number] : self._starts[number + 1]])

    def __iter__(self) -> Iterator[str]:
        starts = self._starts.tolist()
        for start, end in pairwise(starts):
            yield os.fsdecode(self._bytes[start:end])

    def taken(self, numbers: npt.NDArray[np.int64]) -> "NameList":
        """Return the names with these numbers, in their order."""
        return NameList(self[number] for number in numbers.tolist())


Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ImageRuns:
    """Runs of bytes, one an image: each a file below `source`, or a part of an archive.

    `sizes` and `offsets` have an entry per image. `archives` are the files that hold
    several images each, such as a tar, `archive_bytes` their sizes, and `within` has
    the number of its archive for each image; all are empty where `source` is a folder
    of images.
    """

    source: Path
    names: NameList
    offsets: Ints
    sizes: Ints
    archives: tuple[Path, ...]
    archive_bytes: Ints
    within: Ints

    @classmethod
    def of(cls, source: Path, images: Sequence[SourceImage]) -> "ImageRuns":
        """Return the runs of images that were listed from `source`."""
        stored = [image.stored for image in images]
        sizes = (
            {} if _are_files_below(source, images) else {one.path: one.file_bytes for one in stored}
        )
        numbers = {path: number for number, path in enumerate(sizes)}
        return cls(
            source,
            NameList(image.name for image in images),
            np.array([run.offset for run in stored], np.int64),
            np.array([run.size for run in stored], np.int64),
            tuple(map(Path, sizes)),
            np.array(list(sizes.values()), np.int64),
            np.array([numbers[run.path] for run in stored] if sizes else [], np.int64),
        )

    def __len__(self) -> int:
        return len(self.sizes)

    def path(self, number: int) -> Path:
        """Return the path of the file that holds image `number`."""
        if self.archives:
            return self.archives[int(self.within[number])]
        return Path(os.path.join(self.source, self.names[number]))  # noqa: PTH118  # as it was listed

    def file_bytes(self, number: int) -> int:
        """Return the size that this file had when it was listed."""
        return int(self.archive_bytes[self.within[number]] if self.archives else self.sizes[number])

    def where(self, number: int) -> str:
        """Describe in words where image `number` lies."""
        path = self.path(number)
        return f"{path}: {self.names[number]}" if self.archives else str(path)

    def taken(self, numbers: Ints) -> "ImageRuns":
        """Return the images with these numbers, in their order."""
        return replace(
            self,
            names=self.names.taken(numbers),
            offsets=self.offsets[numbers],
            sizes=self.sizes[numbers],
            within=self.within[numbers] if self.archives else self.within,
        )

    def facts(self) -> Iterator[bytes]:
        """Yield the name and size of every image: the set's identity, without paths."""
        for name, size in zip(self.names, self.sizes.tolist(), strict=True):
            yield os.fsencode(name) + b"\0" + size.to_bytes(8, "little")


def _are_files_below(source: Path, images: Sequence[SourceImage]) -> bool:
    """Tell whether images are the files of their names; the first stands for all."""
    return all(
        image.stored.path == os.path.join(source, image.name)  # noqa: PTH118  # as `path` does it
        for image in images[:1]
    )


@dataclass(frozen=True, slots=True, eq=False)
class Arrangement:
    """The order that a raw set takes from a volume packed from it.

    Attributes:
        counts: Samples of each of the volume's blocks.
        fingerprint: What the set is, with this order.
        crcs: The CRC-32 of each image's bytes, by sample_id; None where the volume's
            are other bytes.
        names_classes: Whether the volume says what its classes are called.
    """

    counts: Ints
    fingerprint: str
    crcs: npt.NDArray[np.uint32] | None
    names_classes: bool


@dataclass(frozen=True, slots=True, eq=False)
class RawSet:
    """Images in the order of their ids; satisfies DataSet.

    Without an arrangement that order is the one they were listed in, and all are one
    block. `is_relabelled` says that the labels come from a file or from fields of the
    samples and not from the folders. `columns` are what a list says of each image.
    """

    runs: ImageRuns
    labels: npt.NDArray[np.int32]
    class_names: tuple[str, ...]
    is_relabelled: bool = False
    arrangement: Arrangement | None = None
    columns: tuple[Column, ...] = ()
    counts: Ints = field(init=False, repr=False)
    first_ids: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        own = np.array([len(self.runs)], np.int64)
        counts = own if self.arrangement is None else self.arrangement.counts
        for name, values in {"counts": counts, "first_ids": np.cumsum(counts) - counts}.items():
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        assert counts.sum() == len(self.runs) == len(self.labels)
        assert all(len(column) == len(self.runs) for column in self.columns)

    @property
    def num_blocks(self) -> int:
        """Return the number of blocks of the volume that gives the order; else 1."""
        return len(self.counts)

    @property
    def num_samples(self) -> int:
        """Return the number of images."""
        return len(self.runs)

    @property
    def layout(self) -> Layout:
        """Return the layout of images that lie one by one in files."""
        return "files"

    @property
    def has_blocks(self) -> bool:
        """Tell whether a volume gives the order."""
        return self.arrangement is not None

    @property
    def has_checksums(self) -> bool:
        """Tell whether the CRC-32 of each image is known."""
        return self.arrangement is not None and self.arrangement.crcs is not None

    @property
    def image(self) -> ImageSpec:
        """Describe one image as it will be decoded; each has its own size."""
        return ImageSpec(None, None, 3)

    @property
    def num_classes(self) -> int:
        """Return the number of classes, also those without an image."""
        return len(self.class_names)

    @property
    def names_classes(self) -> bool:
        """Tell whether classes have names and not only numbers."""
        return self.arrangement is None or self.arrangement.names_classes

    @property
    def known_labels(self) -> npt.NDArray[np.int32]:
        """Return the label of every image."""
        return self.labels

    @property
    def paths(self) -> Sequence[Path]:
        """Return the folder, or the archives."""
        return self.runs.archives or (self.runs.source,)

    def block_of(self, sample_id: int) -> tuple[int, int]:
        """Return the block that holds a sample, and the sample's index in it.

        Raises:
            IndexError: The set has no such sample.
        """
        if not 0 <= sample_id < self.num_samples:
            raise IndexError(f"sample {sample_id} of a set with {self.num_samples} samples")
        block = int(np.searchsorted(self.first_ids, sample_id, side="right")) - 1
        return block, sample_id - int(self.first_ids[block])

    def where(self, sample_id: int) -> str:
        """Return the file of a sample, or its name in the tar."""
        return self.runs.where(sample_id)

    def fingerprint(self) -> str:
        """Return the SHA-256 of names and sizes, and labels that no folder gives.

        With an arrangement it is the arrangement's fingerprint. If there are columns,
        it is the SHA-256 of that, as hexadecimal text, and of each column.
        """
        if not self.columns:
            return self._fingerprint_of_images()
        state = hashlib.sha256(self._fingerprint_of_images().encode())
        for column in self.columns:
            state.update(column.fact())
        return state.hexdigest()

    def _fingerprint_of_images(self) -> str:
        if self.arrangement is not None:
            return self.arrangement.fingerprint
        state = hashlib.sha256()
        for fact in self.runs.facts():
            state.update(fact)
        if self.is_relabelled:
            state.update(np.ascontiguousarray(self.labels, "<i4").tobytes())
        return state.hexdigest()


def raw_set(source: Path, listing: Listing, *, is_relabelled: bool = False) -> RawSet:
    """Make the set of all listed images that have a class.

    Raises:
        SetError: None has.
    """
    images = [image for image in listing.images if image.label != NO_CLASS]
    if not images:
        raise SetError(
            f"{source} holds no image that has a label or lies in a class folder "
            f"({len(listing.images)} others, {len(listing.rejects)} rejects). Name the folder that "
            "holds the class folders, or give volume.labels, a CSV of names and classes."
        )
    labels = np.array([image.label for image in images], np.int32)
    return RawSet(ImageRuns.of(source, images), labels, listing.classes, is_relabelled)
