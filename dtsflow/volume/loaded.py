"""The data sets that a plugin's loaders find."""

from dataclasses import dataclass
from pathlib import Path

from dtsflow.errors import SetError
from dtsflow.volume.image_list import ImageLoader
from dtsflow.volume.raw_set import RawSet
from dtsflow.volume.record_set import RecordSet
from dtsflow.volume.records import Loader


@dataclass(frozen=True, slots=True)
class Loaded:
    """The records of `loader` as a data set; satisfies Source."""

    loader: Loader

    def prepare(self) -> None:
        """Make what is needed; nothing is."""

    def scan(self, cache: Path | None = None) -> RecordSet:  # noqa: ARG002  # loaders have none
        """Find the records.

        Raises:
            VolumeError: There is none, or a file is not what it should be.
        """
        records, name = self.loader.records(), type(self.loader).__name__
        if not len(records):
            raise SetError(f"{name} found no record, so there is no batch to make.")
        return RecordSet(name, records)


@dataclass(frozen=True, slots=True)
class LoadedImages:
    """The images of `loader` as a data set; satisfies Source."""

    loader: ImageLoader

    def prepare(self) -> None:
        """Make what is needed; nothing is."""

    def scan(self, cache: Path | None = None) -> RawSet:  # noqa: ARG002  # loaders have none
        """Find the images; no one is read.

        Raises:
            VolumeError: There is none, or the list or a file is not what it should be.
        """
        return self.loader.list_images().image_set()
