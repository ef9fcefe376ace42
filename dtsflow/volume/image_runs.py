"""Where the images of a folder or of archives lie, in little memory."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtsflow.volume.name_list import NameList
from dtsflow.volume.source.listing import SourceImage

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
        """The runs of images that were listed from `source`."""
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
        """The file that image `number` lies in."""
        if self.archives:
            return self.archives[int(self.within[number])]
        return Path(os.path.join(self.source, self.names[number]))  # noqa: PTH118  # as it was listed

    def file_bytes(self, number: int) -> int:
        """The size that this file had when it was listed."""
        return int(self.archive_bytes[self.within[number]] if self.archives else self.sizes[number])

    def where(self, number: int) -> str:
        """The place of image `number` in words."""
        path = self.path(number)
        return f"{path}: {self.names[number]}" if self.archives else str(path)

    def taken(self, numbers: Ints) -> "ImageRuns":
        """The images with these numbers, in their order."""
        return replace(
            self,
            names=self.names.taken(numbers),
            offsets=self.offsets[numbers],
            sizes=self.sizes[numbers],
            within=self.within[numbers] if self.archives else self.within,
        )

    def facts(self) -> Iterator[bytes]:
        """Name and size of every image: what the data set is, wherever it lies."""
        for name, size in zip(self.names, self.sizes.tolist(), strict=True):
            yield os.fsencode(name) + b"\0" + size.to_bytes(8, "little")


def _are_files_below(source: Path, images: Sequence[SourceImage]) -> bool:
    """Whether each image is the file of its name; a source has one kind of images."""
    return all(
        image.stored.path == os.path.join(source, image.name)  # noqa: PTH118  # as `path` does it
        for image in images[:1]
    )
