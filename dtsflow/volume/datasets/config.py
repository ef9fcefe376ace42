"""The data sets that a configuration can name.

`Dts` is a data set of volumes. `Raw` is read as it is, without being packed first.
`Loaded` and `LoadedImages` are found by a plugin's loader.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from dtsflow.config.configurable import configurable
from dtsflow.errors import SetError
from dtsflow.volume.data_set import DataSet
from dtsflow.volume.datasets.image_list import ImageLoader
from dtsflow.volume.datasets.images import RawSet, raw_set
from dtsflow.volume.datasets.pixels import RawPixels
from dtsflow.volume.datasets.records import Loader, RecordSet
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.header import SUFFIX
from dtsflow.volume.source.base import NO_CLASS, Format, Listing, SourceFormat
from dtsflow.volume.source.detect import holds_volumes, list_source
from dtsflow.volume.source.pixel_files import find_pixels
from dtsflow.volume.source.select import Choice, choose


@configurable
class Dts:
    """DTS volumes at `path`: one file, a folder of them, or a glob pattern."""

    path: Annotated[str, Field(min_length=1)]

    def prepare(self) -> None:
        """Make the volumes; there is nothing to make."""

    def scan(self, cache: Path | None = None) -> VolumeSet:
        """Read headers and block indexes; nothing stays open.

        `cache` is a folder for what a scan finds out; see `volume.datasets.scan`.

        Raises:
            VolumeError: The files are missing or damaged, or they are not one whole
                set.
        """
        return scan(self.path, cache)


log = logging.getLogger(__name__)

FilePath = Annotated[str, Field(min_length=1)]
FieldName = Annotated[str, Field(min_length=1)]


@configurable
class Raw:
    """Images at `path`, which was not packed.

    It lists the same images with the same labels as `dtsflow pack`. They are a folder
    of class folders or a tar of them, WebDataset shards, Parquet files with a column of
    images, or MNIST or CIFAR files.

    Attributes:
        path: A folder, an archive, or a pattern or brace list of shards or tables.
        labels: A CSV of file names and classes, in place of the class folders.
        classes: A file of class names, class 0 first; or a volume that has names.
        split: The part of MNIST or CIFAR files; every other source has only one.
        format: What the files are; `auto` detects it, as `list_source` describes.
        image_field: The suffix of the images in shards, or their column in a table.
        label_field: The field of the labels in .json members, or their column.
        spool: A folder that images from Parquet files are unpacked into, once.
    """

    path: FilePath
    labels: FilePath | None = None
    classes: FilePath | None = None
    split: Literal["train", "test"] = "train"
    format: Format = "auto"
    image_field: FieldName | None = None
    label_field: FieldName | None = None
    spool: FilePath | None = None

    def prepare(self) -> None:
        """Make what is needed; nothing is."""

    def scan(self, cache: Path | None = None) -> DataSet:  # noqa: ARG002  # of volumes; a listing is not kept
        """List the images; only those of MNIST and CIFAR are read.

        Those from Parquet files are unpacked, unless that was done before.

        Raises:
            VolumeError: There is no image, or a file of the set is damaged.
        """
        place = Path(self.path).expanduser()
        _refuse_volumes(place)
        pixels = find_pixels(place, self.split) if self.format in {"auto", "images"} else None
        if pixels is None:
            return self._images(place)
        if self.labels is not None or self.classes is not None:
            raise SetError(
                f"{place} holds {pixels.kind.value} files, which bring their own labels and "
                "classes: leave out volume.labels and volume.classes."
            )
        return RawPixels.of(place, self.split, pixels)

    def _images(self, place: Path) -> RawSet:
        choice = Choice(labels=_path(self.labels), classes=_path(self.classes))
        found = list_source(
            place, SourceFormat(self.format, self.image_field, self.label_field, _path(self.spool))
        )
        listing = choose(found, choice).listing
        _log_left_out(place, listing)
        is_relabelled = found.has_label_fields or choice != Choice()
        return raw_set(listing.root or place, listing, is_relabelled=is_relabelled)


def _path(given: str | None) -> Path | None:
    return None if given is None else Path(given).expanduser()


def _refuse_volumes(place: Path) -> None:
    if place.suffix == SUFFIX or (place.is_dir() and holds_volumes(place)):
        raise SetError(
            f"{place} names DTS volumes, which are packed already. Read them with volume=dts, or "
            "name the folder of the images themselves."
        )


def _log_left_out(place: Path, listing: Listing) -> None:
    left_out = [(one.name, one.reason) for one in listing.rejects]
    left_out += [(one.name, one.why_no_class) for one in listing.images if one.label == NO_CLASS]
    if left_out:
        log.warning(
            "%d entries of %s are left out; the first is %s: %s", len(left_out), place, *left_out[0]
        )


@dataclass(frozen=True, slots=True)
class Loaded:
    """The records of `loader` as a data set; satisfies Source."""

    loader: Loader

    def prepare(self) -> None:
        """Make what is needed; nothing is."""

    def scan(self, cache: Path | None = None) -> RecordSet:  # noqa: ARG002  # loaders have none
        """Find the records.

        Raises:
            VolumeError: The set is not there, or a file is not what it should be.
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
            VolumeError: The set is not there, or the list or a file is wrong.
        """
        return self.loader.list_images().image_set()
