"""A data set that was not packed: images one by one in a folder or in archives."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtsflow.errors import SetError
from dtsflow.spec import ImageSpec
from dtsflow.volume.columns import Column
from dtsflow.volume.data_set import Layout
from dtsflow.volume.image_runs import ImageRuns
from dtsflow.volume.source.listing import NO_CLASS, Listing

Ints = npt.NDArray[np.int64]


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
        """Blocks of the volume that gives the order; else one."""
        return len(self.counts)

    @property
    def num_samples(self) -> int:
        """All images."""
        return len(self.runs)

    @property
    def layout(self) -> Layout:
        """Images one by one in files."""
        return "files"

    @property
    def has_blocks(self) -> bool:
        """Whether a volume gives the order."""
        return self.arrangement is not None

    @property
    def has_checksums(self) -> bool:
        """Whether the CRC-32 of each image is known."""
        return self.arrangement is not None and self.arrangement.crcs is not None

    @property
    def image(self) -> ImageSpec:
        """One image as it will be decoded; each has its own size."""
        return ImageSpec(None, None, 3)

    @property
    def num_classes(self) -> int:
        """Classes, also those without an image."""
        return len(self.class_names)

    @property
    def names_classes(self) -> bool:
        """Whether classes have names and not only numbers."""
        return self.arrangement is None or self.arrangement.names_classes

    @property
    def known_labels(self) -> npt.NDArray[np.int32]:
        """The label of every image."""
        return self.labels

    @property
    def paths(self) -> Sequence[Path]:
        """The folder, or the archives."""
        return self.runs.archives or (self.runs.source,)

    def block_of(self, sample_id: int) -> tuple[int, int]:
        """The block that holds a sample, and the sample's index in it.

        Raises:
            IndexError: The set has no such sample.
        """
        if not 0 <= sample_id < self.num_samples:
            raise IndexError(f"sample {sample_id} of a set with {self.num_samples} samples")
        block = int(np.searchsorted(self.first_ids, sample_id, side="right")) - 1
        return block, sample_id - int(self.first_ids[block])

    def where(self, sample_id: int) -> str:
        """The file of a sample, or its name in the tar."""
        return self.runs.where(sample_id)

    def fingerprint(self) -> str:
        """SHA-256 over names and sizes, and labels that no folder gives.

        With an arrangement it is what that says. Columns count, too, where there are
        any: then it is SHA-256 over that, as hexadecimal text, and each of them.
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
    """The set of all listed images that have a class.

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
