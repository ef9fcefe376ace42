"""DTS volumes as a source: every stored sample is an image."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from dtsflow.errors import PackError
from dtsflow.volume.datasets.scan import read_indexes, scan
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.file import VolumeFile
from dtsflow.volume.format.io import opened
from dtsflow.volume.format.manifest import manifest_path, read_manifest
from dtsflow.volume.source.base import Listing, SourceImage, Stored, why_unsafe

log = logging.getLogger(__name__)


def read_volumes(path: str | Path) -> tuple[Listing, VolumeSet]:
    """List the samples of the data set that a file, a folder or a pattern names.

    The images are in volume order, so image i is sample i of the set. Names are those
    of the manifests if every volume has one that fits it; else the class and the
    sample's number in the set. Classes are those of the extension index, or the numbers
    up to the largest label.

    Raises:
        PackError: The set has no blocks, two samples have one name, or a name leads
            out of its folder.
        SetError: Nothing is there, several data sets are, or one is not whole.
        HeaderError, BlockError: A file is damaged.
        VolumeError: A file cannot be read, or a manifest is damaged.
    """
    volumes = scan(path)
    if volumes.layout != "blocks":
        raise PackError(
            f"{path} holds {volumes.kind.value} pixels, not image files. Name a volume of images."
        )
    places = list(_places(volumes))
    labels = [label for label, _ in places]
    classes = volumes.class_names
    names = _manifest_names(volumes, labels) or [
        f"{classes[label]}/{number:08d}" for number, label in enumerate(labels)
    ]
    _check_names(names, volumes)
    images = tuple(
        SourceImage(name, label, stored)
        for name, (label, stored) in zip(names, places, strict=True)
    )
    return Listing(classes, images), volumes


def _places(volumes: VolumeSet) -> Iterator[tuple[int, Stored]]:
    """Yield the label and the bytes of each sample, in volume order."""
    files = {file.path: (str(file.path), file.size) for file in volumes.files}
    times = {file.path: _changed_ns(file.path) for file in volumes.files}
    for span, index in read_indexes(volumes, range(volumes.num_blocks)):
        path, size = files[span.path]
        rows = zip(index.labels.tolist(), index.offsets.tolist(), index.sizes.tolist(), strict=True)
        for label, start, length in rows:
            yield label, Stored(path, span.offset + start, length, size, times[span.path])


def _changed_ns(path: Path) -> int:
    with opened(path) as descriptor:
        return os.fstat(descriptor).st_mtime_ns


def _manifest_names(volumes: VolumeSet, labels: list[int]) -> list[str]:
    """Name all samples; empty if a manifest is missing or of something else."""
    names: list[str] = []
    for file in volumes.files:
        place = manifest_path(file.path)
        if not place.is_file():
            return []
        read = _names_of(place, file, labels[len(names) : len(names) + file.num_samples])
        if read is None:
            log.warning("%s is not of its volume; samples are named by number", place)
            return []
        names += read
    return names


def _names_of(place: Path, file: VolumeFile, labels: list[int]) -> list[str] | None:
    names: list[str] = []
    try:
        for entry in read_manifest(place):
            number = len(names)
            if number == file.num_samples or (entry.id, entry.label) != (number, labels[number]):
                return None
            names.append(str(entry.name))
    except OSError as error:
        raise PackError(f"{place} cannot be read: {error.strerror}. Move it away.") from error
    return names if len(names) == file.num_samples else None


def _check_names(names: list[str], volumes: VolumeSet) -> None:
    seen: set[str] = set()
    for number, name in enumerate(names):
        reason = "a second sample of this name" if name in seen else why_unsafe(name)
        if reason or not name:
            raise PackError(
                f"{volumes.where(number)} is called {name!r} by its manifest or class: "
                f"{reason or 'no name'}. Move the manifest away, and samples are named by number."
            )
        seen.add(name)
