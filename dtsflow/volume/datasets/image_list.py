"""Images in files, as a plugin lists them for a run and for a pack.

`folder_at` also finds folders that come with an installed package.
"""

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Protocol, runtime_checkable

import numpy as np

from dtsflow.errors import SetError
from dtsflow.volume.data_set import Column
from dtsflow.volume.datasets.images import ImageRuns, RawSet
from dtsflow.volume.source.base import (
    NO_CLASS,
    Listing,
    SourceImage,
    Stored,
    clean,
    whole_file,
    why_unsafe,
)


@dataclass(frozen=True, slots=True, eq=False)
class ImageList:
    """Images, one a file; in a run their indexes in the list are their ids.

    Attributes:
        root: The folder that they lie below, at any depth; links are followed.
        names: The path of each below `root`, with slashes; none comes twice.
        labels: The class of each, an index of `classes`; -1: it has none.
        classes: The name of each class.
        where: Describes in words where an entry of the list is, for messages: file and
            line.
        columns: What else is known of each image.
    """

    root: Path
    names: Sequence[str]
    labels: Sequence[int]
    classes: tuple[str, ...]
    where: Callable[[int], str]
    columns: tuple[Column, ...] = ()

    def listing(self) -> Listing:
        """Return the same images as a source of a pack, in the same order.

        Raises:
            SetError: There is no image; a file is not there, or not below `root`; one
                comes twice; a label is not a class. Names the entry.
        """
        self._check_lengths()
        if not self.names:
            raise SetError(f"{self.root}: no image is listed, so there is nothing to read.")
        first: dict[str, int] = {}
        images = []
        for number, (given, label) in enumerate(zip(self.names, self.labels, strict=True)):
            name = self._name(number, given)
            if (before := first.setdefault(name, number)) != number:
                raise SetError(
                    f"{self.where(number)}: {name} is listed before, in {self.where(before)}. A "
                    "sample is one image: remove one of the two."
                )
            self._check_label(number, label)
            why = "" if label != NO_CLASS else f"{self.where(number)} gives it no label"
            images.append(SourceImage(name, int(label), self._stored(number, name), why))
        return Listing(self.classes, tuple(images), has_label_fields=True, root=self.root)

    def image_set(self) -> RawSet:
        """Return the same as a data set; images without a class have the label -1.

        Raises:
            SetError: As for `listing`.
        """
        listing = self.listing()
        labels = np.array([image.label for image in listing.images], np.int32)
        runs = ImageRuns.of(self.root, listing.images)
        return RawSet(runs, labels, self.classes, is_relabelled=True, columns=self.columns)

    def _check_lengths(self) -> None:
        lengths = {"labels": len(self.labels)}
        lengths |= {column.field.name: len(column) for column in self.columns}
        for name, length in lengths.items():
            if length != len(self.names):
                raise SetError(
                    f"{self.root}: {len(self.names):,} images are listed, and {length:,} of "
                    f"{name!r}. Whoever lists them must give one for each image."
                )

    def _name(self, number: int, given: str) -> str:
        problem = why_unsafe(given)
        name = "" if problem else clean(given)
        if not name:
            raise SetError(
                f"{self.where(number)}: {given!r} is {problem or 'no path of an image'}. Give the "
                f"path below {self.root}, or another root."
            )
        return name

    def _check_label(self, number: int, label: int) -> None:
        if not NO_CLASS <= label < len(self.classes):
            raise SetError(
                f"{self.where(number)}: {label} is no label: there are {len(self.classes)} "
                "classes, numbered from 0. Correct it, or name more classes."
            )

    def _stored(self, number: int, name: str) -> Stored:
        path = os.path.join(self.root, name)  # noqa: PTH118  # a million Paths take a gigabyte
        try:
            state = os.stat(path)  # noqa: PTH116  # as above
        except (OSError, ValueError) as error:  # a text that no file can be called
            reason = getattr(error, "strerror", None) or error
            raise SetError(
                f"{self.where(number)}: {path!r} cannot be found: {reason}. Correct the path, add "
                "the file, or give another root."
            ) from error
        if not stat.S_ISREG(state.st_mode):  # opening a pipe waits for ever
            raise SetError(f"{self.where(number)}: {path} is no file. Give the path of an image.")
        return whole_file(path, state)


@runtime_checkable
class ImageLoader(Protocol):
    """A configured origin of images in files."""

    def list_images(self) -> ImageList:
        """Find out which images there are; none is read.

        Raises:
            VolumeError: The list is not what it should be; says where, and what to do.
        """


_SCHEME = "pkg://"


def folder_at(place: str | Path) -> Path:
    """Return the folder that `place` names; `pkg://PACKAGE/FOLDER` is in a package.

    Raises:
        SetError: There is no such package, or the folder is not within it.
    """
    text = str(place)
    if not text.startswith(_SCHEME):
        return Path(text).expanduser()
    package, _, inside = text.removeprefix(_SCHEME).partition("/")
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise SetError(f"{text}: there is no package {package!r} with folders; install it first.")
    if ".." in PurePosixPath(inside).parts:
        raise SetError(f"{text} leaves the package. Give the path of the folder itself.")
    # An editable install has several places, and not each folder in all of them.
    places = [Path(place) / inside for place in spec.submodule_search_locations]
    return next((place for place in places if place.is_dir()), places[0])
