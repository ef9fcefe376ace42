"""`order_from`: a folder of images in the order of the volume packed from it."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PlanError, SetError
from dtsflow.volume.data_set import DataSet
from dtsflow.volume.datasets.access import read_labels
from dtsflow.volume.datasets.images import Arrangement, ImageRuns, RawSet
from dtsflow.volume.datasets.scan import scan
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.file import VolumeFile
from dtsflow.volume.format.manifest import Entry, manifest_digest, manifest_path, read_manifest


def arranged_as(found: DataSet, path: str | Path, cache: Path | None = None) -> RawSet:
    """Arrange the images of a raw set with a volume's ids, blocks and labels.

    The manifests of the volumes at `path` say which image each sample is. Images that
    were not packed are left out. Sizes are compared, no image is read; `cache` is as
    for `scan`.

    Raises:
        PlanError: `found` or the volume is not a set of images in files.
        SetError: An image is gone or has another size, or a manifest is missing or is
            not the volume's.
        VolumeError: The volume or its manifest is damaged.
    """
    if not isinstance(found, RawSet):
        raise PlanError(
            f"reader.order_from gives images in files the order of a volume; {found.paths[0]} "
            f"holds {found.layout}, which have their own. Leave it out, or use volume=raw with "
            "the folder of the images."
        )
    volumes = scan(path, cache)
    if volumes.layout == "pixels":
        raise PlanError(
            f"reader.order_from: {path} holds {volumes.kind.value} pixels, not packed images. Name "
            f"the volume that was packed from {found.runs.source}."
        )
    packed = _Packed.of(volumes, found.runs)
    runs = found.runs.taken(packed.numbers)
    are_same = _are_same_bytes(volumes)
    arrangement = Arrangement(
        counts=volumes.counts.copy(),
        fingerprint=volumes.fingerprint() if are_same else _of_both(volumes, runs),
        crcs=packed.crcs if are_same else None,
        names_classes=volumes.names_classes,
    )
    columns = tuple(column.taken(packed.numbers) for column in found.columns)
    return RawSet(
        runs, packed.labels, volumes.class_names, arrangement=arrangement, columns=columns
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Packed:
    """The facts of the manifests, by sample_id; `numbers` are those of the raw set."""

    numbers: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    crcs: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, volumes: VolumeSet, runs: ImageRuns) -> "_Packed":
        numbers = np.empty(volumes.num_samples, np.int64)
        labels = np.empty(volumes.num_samples, np.int32)
        crcs = np.empty(volumes.num_samples, np.uint32)
        by_name = {name: number for number, name in enumerate(runs.names)}
        sample_id = 0
        for file in volumes.files:
            for entry in _entries(file):
                numbers[sample_id] = _find(entry, by_name, runs, file)
                labels[sample_id], crcs[sample_id] = entry.label, entry.crc32
                sample_id += 1
        if any(file.extension is None for file in volumes.files):
            _compare_labels(labels, volumes)
        return cls(numbers, labels, crcs)


def _entries(file: VolumeFile) -> Iterator[Entry]:
    """Yield a volume's manifest line by line; refuse one that is another volume's."""
    place = manifest_path(file.path)
    try:
        if file.extension is not None and manifest_digest(place) != _recorded(file):
            raise _foreign(place, file, "it is another or was changed since")
        samples = 0
        for entry in read_manifest(place):
            if samples == file.num_samples or not _is_sound(entry, samples):
                raise _foreign(place, file, f"line {samples + 1} is none of its samples")
            yield entry
            samples += 1
    except OSError as error:
        raise SetError(
            f"reader.order_from: {place} cannot be read: {error.strerror}. It says which image "
            f"each sample of {file.path.name} was: copy it to beside the volume, or pack again."
        ) from error
    if samples < file.num_samples:
        raise _foreign(place, file, f"it has {samples} lines for {file.num_samples} samples")


def _recorded(file: VolumeFile) -> str:
    assert file.extension is not None
    return file.extension.about.manifest_sha256


def _is_sound(entry: Entry, number: int) -> bool:
    """Tell whether a line can be sample `number`: it may hold any JSON."""
    name: object = entry.name
    numbers: tuple[object, ...] = (entry.id, entry.label, entry.crc32, entry.bytes)
    return (
        isinstance(name, str)
        and all(type(one) is int and 0 <= one < 1 << 32 for one in numbers)
        and entry.label < 1 << 31
        and entry.id == number
    )


def _find(entry: Entry, by_name: Mapping[str, int], runs: ImageRuns, file: VolumeFile) -> int:
    """Return the number of an entry's image among those that are there."""
    number = by_name.get(entry.name, -1)
    packed = f"sample {entry.id} of {file.path.name} was packed from"
    if number < 0:
        raise SetError(
            f"reader.order_from: {runs.source} has no {entry.name!r}, which {packed}. Put the "
            "file back, or pack the folder as it is now."
        )
    if runs.sizes[number] != entry.bytes:
        raise SetError(
            f"reader.order_from: {runs.where(number)} has {runs.sizes[number]} bytes, it had "
            f"{entry.bytes} when {packed} it. Put the file back, or pack the folder as it is now."
        )
    return number


def _compare_labels(labels: npt.NDArray[np.int32], volumes: VolumeSet) -> None:
    """Hold manifests that no index vouches for against the blocks themselves."""
    differing = np.flatnonzero(read_labels(volumes) != labels)
    if len(differing):
        sample_id = int(differing[0])
        block, _ = volumes.block_of(sample_id)
        path = volumes.span(block).path
        raise SetError(
            f"reader.order_from: {manifest_path(path)} is not of its volume: it gives "
            f"{volumes.where(sample_id)} another label. Copy it from where the volume was packed."
        )


def _foreign(place: Path, file: VolumeFile, why: str) -> SetError:
    return SetError(
        f"reader.order_from: {place} is not the manifest of {file.path.name}: {why}. Copy it from "
        "where the volume was packed, or pack again."
    )


def _are_same_bytes(volumes: VolumeSet) -> bool:
    """Tell whether the volumes store the files unchanged."""
    if volumes.level > 0:
        return False
    options = [file.extension.about.options for file in volumes.files if file.extension is not None]
    if any(one.get("restarts") for one in options):
        return False
    # Without an index it is upstream's layout, which re-encodes nothing at level 0.
    layouts = [one.get("layout") for one in options]
    return all(isinstance(one, Mapping) and one.get("oversize") == "reject" for one in layouts)


def _of_both(volumes: VolumeSet, runs: ImageRuns) -> str:
    """Digest a set that has a volume's ids, but other bytes."""
    state = hashlib.sha256(volumes.fingerprint().encode())
    for fact in runs.facts():
        state.update(fact)
    return state.hexdigest()
