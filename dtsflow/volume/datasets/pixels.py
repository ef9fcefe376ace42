"""MNIST or CIFAR from their public files, not packed."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtsflow.errors import SetError
from dtsflow.spec import ImageSpec
from dtsflow.volume.data_set import Column, Layout
from dtsflow.volume.format.header import Kind
from dtsflow.volume.format.pixel_file import SMALL_SETS, SmallSet
from dtsflow.volume.source.pixel_files import PixelSet, find_pixels


@dataclass(frozen=True, slots=True, eq=False)
class RawPixels:
    """One part of such a set, described; satisfies DataSet.

    Ids count through the public files in their order. `digest` is SHA-256 over all
    labels and pixels.
    """

    path: Path
    split: str
    kind: Kind
    known_labels: npt.NDArray[np.int32]
    digest: str

    @classmethod
    def of(cls, path: Path, split: str, pixels: PixelSet) -> "RawPixels":
        """Describe a set that was read from `path`; keep no pixel."""
        return cls(path, split, pixels.kind, pixels.labels.astype(np.int32), _digest(pixels))

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Return one count: the only block holds all samples."""
        return np.array([self.num_samples], np.int64)

    @property
    def first_ids(self) -> npt.NDArray[np.int64]:
        """Return the sample_id 0: the only block begins with it."""
        return np.zeros(1, np.int64)

    @property
    def num_blocks(self) -> int:
        """Return 1: all samples are one block."""
        return 1

    @property
    def num_samples(self) -> int:
        """Return the number of samples of all files."""
        return len(self.known_labels)

    @property
    def layout(self) -> Layout:
        """Return the layout of pixels that lie behind one another."""
        return "pixels"

    @property
    def has_blocks(self) -> bool:
        """Return False: there are no blocks to permute."""
        return False

    @property
    def has_checksums(self) -> bool:
        """Return True: reading compares all bytes with their digest."""
        return True

    @property
    def image(self) -> ImageSpec:
        """Describe one image."""
        return ImageSpec(self._set.height, self._set.width, self._set.channels)

    @property
    def num_classes(self) -> int:
        """Return the number of classes of the set."""
        return len(self._set.class_names)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Return a name per label."""
        return self._set.class_names

    @property
    def names_classes(self) -> bool:
        """Return True: the classes have names."""
        return True

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return no column: the files have labels only."""
        return ()

    @property
    def paths(self) -> Sequence[Path]:
        """Return the folder or the archive."""
        return (self.path,)

    @property
    def nbytes(self) -> int:
        """Return the number of bytes of all labels and pixels."""
        return self.num_samples * self._set.record_bytes

    def block_of(self, sample_id: int) -> tuple[int, int]:
        """Return block 0, and the sample's index in it.

        Raises:
            IndexError: The set has no such sample.
        """
        if not 0 <= sample_id < self.num_samples:
            raise IndexError(f"sample {sample_id} of a set with {self.num_samples} samples")
        return 0, sample_id

    def where(self, sample_id: int) -> str:
        """Name the part, and the sample's number in it."""
        return f"{self.path} {self.split} sample {sample_id}"

    def fingerprint(self) -> str:
        """Return the SHA-256 of all labels and pixels."""
        return self.digest

    def load(self) -> PixelSet:
        """Read all samples.

        Raises:
            VolumeError: The files are not what was described, or cannot be read.
        """
        found = find_pixels(self.path, self.split)
        if found is None or _digest(found) != self.digest:
            raise SetError(
                f"{self.path} changed: its {self.split} part is not the one that was planned. "
                "Start again."
            )
        return found

    @property
    def _set(self) -> SmallSet:
        return SMALL_SETS[self.kind]


def _digest(pixels: PixelSet) -> str:
    state = hashlib.sha256(pixels.kind.value.encode())
    state.update(np.ascontiguousarray(pixels.labels).data)
    state.update(np.ascontiguousarray(pixels.pixels).data)
    return state.hexdigest()
