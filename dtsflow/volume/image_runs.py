"""Where the images of a folder or a tar lie, in little memory."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtsflow.volume.name_list import NameList
from dtsflow.volume.source.listing import SourceImage

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ImageRuns:
    """Runs of bytes, one an image: each a file below `source`, or a part of the tar.

    `sizes` and `offsets` have an entry per image; `archive_bytes` is the size of the
    tar, 0 where `source` is a folder.
    """

    source: Path
    names: NameList
    offsets: Ints
    sizes: Ints
    archive_bytes: int

    @classmethod
    def of(cls, source: Path, images: Sequence[SourceImage]) -> "ImageRuns":
        """The runs of images that were listed from `source`."""
        stored = [image.stored for image in images]
        is_archive = not source.is_dir()
        assert all((run.path == str(source)) is is_archive for run in stored)
        return cls(
            source,
            NameList(image.name for image in images),
            np.array([run.offset for run in stored], np.int64),
            np.array([run.size for run in stored], np.int64),
            stored[0].file_bytes if is_archive and stored else 0,
        )

    def __len__(self) -> int:
        return len(self.sizes)

    def path(self, number: int) -> Path:
        """The file that image `number` lies in."""
        if self.archive_bytes:
            return self.source
        return Path(os.path.join(self.source, self.names[number]))  # noqa: PTH118  # as it was listed

    def file_bytes(self, number: int) -> int:
        """The size that this file had when it was listed."""
        return self.archive_bytes or int(self.sizes[number])

    def where(self, number: int) -> str:
        """The place of image `number` in words."""
        if self.archive_bytes:
            return f"{self.source}: {self.names[number]}"
        return str(self.path(number))

    def taken(self, numbers: Ints) -> "ImageRuns":
        """The images with these numbers, in their order."""
        return ImageRuns(
            self.source,
            self.names.taken(numbers),
            self.offsets[numbers],
            self.sizes[numbers],
            self.archive_bytes,
        )

    def facts(self) -> Iterator[bytes]:
        """Name and size of every image: what the data set is, wherever it lies."""
        for name, size in zip(self.names, self.sizes.tolist(), strict=True):
            yield os.fsencode(name) + b"\0" + size.to_bytes(8, "little")
