"""A data set to be read as it is, without packing it first."""

import logging
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from dtsflow.configurable import configurable
from dtsflow.errors import SetError
from dtsflow.volume.data_set import DataSet
from dtsflow.volume.format import SUFFIX
from dtsflow.volume.raw_pixels import RawPixels
from dtsflow.volume.raw_set import RawSet, raw_set
from dtsflow.volume.source.choice import Choice, choose
from dtsflow.volume.source.listing import NO_CLASS, Listing
from dtsflow.volume.source.open_source import holds_volumes, list_source
from dtsflow.volume.source.pixels import find_pixels

log = logging.getLogger(__name__)

FilePath = Annotated[str, Field(min_length=1)]


@configurable
class Raw:
    """Images at `path`: a folder of class folders, a tar of them, MNIST or CIFAR files.

    What it lists, how and with which labels is what `dtsflow pack` would.

    Attributes:
        path: A folder, or an archive.
        labels: A CSV of file names and classes, in place of the class folders.
        classes: A file of class names, class 0 first; or a volume that has names.
        split: The part of MNIST or CIFAR files; folders and tars hold only one.
    """

    path: FilePath
    labels: FilePath | None = None
    classes: FilePath | None = None
    split: Literal["train", "test"] = "train"

    def prepare(self) -> None:
        """Make what is needed; nothing is."""

    def scan(self, cache: Path | None = None) -> DataSet:  # noqa: ARG002  # of volumes; a listing is not kept
        """List the images; no one is read, but of MNIST and CIFAR all are.

        Raises:
            VolumeError: There is no image, or a file of the set is damaged.
        """
        place = Path(self.path).expanduser()
        _refuse_volumes(place)
        pixels = find_pixels(place, self.split)
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
        listing = choose(list_source(place), choice).listing
        _log_left_out(place, listing)
        return raw_set(place, listing, is_relabelled=choice != Choice())


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
    left_out += [
        (one.name, "lies in no class folder") for one in listing.images if one.label == NO_CLASS
    ]
    if left_out:
        log.warning(
            "%d entries of %s are left out; the first is %s: %s", len(left_out), place, *left_out[0]
        )
