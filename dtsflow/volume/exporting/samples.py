"""Samples as an export writes them: their names, their bytes, their checksums."""

import io
import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import numpy.typing as npt
from PIL import Image

from dtsflow.errors import BlockError, VolumeError
from dtsflow.volume.datasets.volume_set import VolumeSet
from dtsflow.volume.format.file import VolumeFile
from dtsflow.volume.format.manifest import manifest_path, read_manifest
from dtsflow.volume.source.base import SIGNATURES, UNKNOWN, WEBP, sniffed_suffix

PIXEL_SUFFIX = ".png"
_JPEG_SUFFIXES = (".jpg", ".jpeg")
_LONGEST_NAME = 4096  # bytes: the longest path of any system we write to
_DEEPEST_NAME = 64  # folders in each other; no data set has as many
_SUFFIXES = (*dict.fromkeys(SIGNATURES.values()), WEBP, UNKNOWN)


@dataclass(frozen=True, slots=True, eq=False)
class ExportNames:
    """The paths of the samples, below one folder, with slashes, no two alike.

    `folders` are all folders needed, each after those it lies in. A sample whose entry
    in `by_content` is true still lacks its suffix: the bytes decide it.
    """

    classes: tuple[str, ...]
    folders: tuple[str, ...]
    names: Sequence[str]
    by_content: npt.NDArray[np.bool_]

    def name(self, sample_id: int, data: memoryview) -> str:
        """Return the whole name of a sample with these bytes."""
        name = self.names[sample_id]
        return name + sniffed_suffix(data) if self.by_content[sample_id] else name


def export_names(volumes: VolumeSet, labels: npt.NDArray[np.int32]) -> ExportNames:
    """Plan the name of every sample; `labels` has one per sample of the set.

    A sample has the name in its volume's manifest, put below its class folder unless it
    begins with that, or the volume names no classes and the manifest has a folder;
    without a manifest it is its class folder and its number in the set. At the levels
    that re-encode, and for pixels, the suffix says what is stored. Where two would have
    one name, the later one gets its number after it.

    Raises:
        VolumeError: A manifest is damaged or not this volume's, classes have one name,
            or a name would lead out of the folder.
    """
    classes = _class_folders(volumes)
    wished: list[str] = []
    by_content = np.zeros(len(labels), np.bool_)
    for file in volumes.files:
        ids = range(len(wished), len(wished) + file.num_samples)
        own = labels[ids.start : ids.stop].tolist()
        manifest = manifest_path(file.path)
        if manifest.exists():
            wished += _from_manifest(manifest, own, classes, volumes)
            continue
        suffix = "" if volumes.layout == "blocks" else PIXEL_SUFFIX
        wished += [f"{classes[label]}/{i:08d}{suffix}" for i, label in zip(ids, own, strict=True)]
        by_content[ids.start : ids.stop] = volumes.layout == "blocks"
    # Folders of numbers are all there, or none: they would count as classes again.
    used = {name.partition("/")[0] for name in wished}
    kept = classes if volumes.names_classes or not used.isdisjoint(classes) else ()
    folders = _folders(kept, wished)
    names = _apart(wished, by_content, set(folders))
    return ExportNames(classes, folders, names, by_content)


def _class_folders(volumes: VolumeSet) -> tuple[str, ...]:
    if not volumes.kind.in_blocks:
        return volumes.class_names
    if not volumes.names_classes:
        # Of one width, so that sorted folders are in the order of the labels.
        width = len(str(volumes.num_classes - 1))
        return tuple(f"{label:0{width}d}" for label in range(volumes.num_classes))
    _check_class_names(volumes.files[0].path, volumes.class_names)
    return volumes.class_names


def _check_class_names(path: Path, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for label, name in enumerate(names):
        reason = "it is also the name of another class" if name in seen else _why_unsafe(name)
        if reason:
            raise VolumeError(
                f"{path}: class {label} is called {name!r}, which cannot be a folder: "
                f"{reason}. The volume was not packed by dtsflow, or is damaged."
            )
        seen.add(name)


def _from_manifest(
    manifest: Path, labels: Sequence[int], classes: Sequence[str], volumes: VolumeSet
) -> Iterator[str]:
    count = 0
    for name, label in _entries(manifest, labels):
        count += 1
        is_placed = name.startswith(f"{classes[label]}/") or (
            "/" in name and not volumes.names_classes
        )
        below = name if is_placed else f"{classes[label]}/{name}"
        yield _with_true_suffix(below, volumes)
    if count < len(labels):
        raise VolumeError(_foreign(manifest, f"it has {count} lines for {len(labels)} samples"))


def _entries(manifest: Path, labels: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Yield the name and label of each line, as long as it is this volume's."""
    try:
        for number, entry in enumerate(read_manifest(manifest)):
            if number >= len(labels):
                raise VolumeError(_foreign(manifest, f"it has over {len(labels)} lines"))
            if (entry.id, entry.label) != (number, labels[number]):
                raise VolumeError(
                    _foreign(
                        manifest,
                        f"line {number + 1} is of sample {entry.id} with label {entry.label}, "
                        f"the volume has sample {number} with label {labels[number]} there",
                    )
                )
            reason = _why_unsafe(entry.name)
            if reason:
                raise VolumeError(
                    f"{manifest} line {number + 1}: the name {entry.name!r} cannot be written: "
                    f"{reason}. Move the manifest away to export by number."
                )
            yield entry.name, labels[number]
    except OSError as error:
        raise VolumeError(
            f"{manifest} cannot be read: {error.strerror}. Make it readable, or move it away to "
            "export by number."
        ) from error


def _foreign(manifest: Path, what: str) -> str:
    return (
        f"{manifest} is not of the volume beside it: {what}. Copy both again from where they "
        "were packed, or move it away to export by number."
    )


def _why_unsafe(name: object) -> str:
    """Explain why a name is unsafe as a path below a folder of ours; empty if safe."""
    if not isinstance(name, str) or "\0" in name:
        return "it is no text, or has a zero byte"
    try:
        size = len(os.fsencode(name))
    except UnicodeEncodeError:
        return "it has characters that no file name can have"
    parts = name.split("/")
    if size > _LONGEST_NAME or len(parts) > _DEEPEST_NAME:
        return f"it has {size} bytes in {len(parts)} parts"
    if any(part in ("", ".", "..") for part in parts):
        return "it is absolute, or has an empty part, . or .."
    # The other system's rules too: a volume travels.
    windows = PureWindowsPath(name)
    if windows.drive or windows.root or ".." in windows.parts:
        return "it begins with a drive, or leads out of its folder"
    return ""


def _with_true_suffix(name: str, volumes: VolumeSet) -> str:
    """Return a source's name, with another suffix where other bytes are stored."""
    if volumes.layout == "blocks" and volumes.level == 0:
        return name
    fitting = _JPEG_SUFFIXES if volumes.layout == "blocks" else (PIXEL_SUFFIX,)
    stem, suffix = posixpath.splitext(name)
    return name if suffix.lower() in fitting else stem + fitting[0]


def _folders(classes: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    found = {name.rpartition("/")[0] for name in names}.union(classes)
    above = {str(folder) for name in found for folder in PurePosixPath(name).parents}
    return tuple(sorted(found | (above - {"."})))


def _apart(
    wished: Sequence[str], by_content: npt.NDArray[np.bool_], folders: set[str]
) -> list[str]:
    """Make names unlike each other, and unlike each folder."""
    taken = set(folders)
    names = list(wished)
    for i in np.flatnonzero(~by_content).tolist():
        stem, suffix = posixpath.splitext(names[i])
        while names[i] in taken:
            stem = f"{stem}-{i}"
            names[i] = stem + suffix
        taken.add(names[i])
    # Numbers differ from each other, so these can only meet a manifest's names.
    for i in np.flatnonzero(by_content).tolist():
        while any(names[i] + suffix in taken for suffix in _SUFFIXES):
            names[i] = f"{names[i]}-{i}"
    return names


def png(volumes: VolumeSet, data: memoryview) -> memoryview:
    """Encode a sample of a set of pixels as a PNG."""
    image = volumes.image
    assert image.height is not None
    assert image.width is not None
    pixels = np.frombuffer(data, np.uint8).reshape(image.height, image.width, image.channels)
    stored = io.BytesIO()
    Image.fromarray(pixels[..., 0] if image.channels == 1 else pixels).save(stored, "PNG")
    return stored.getbuffer()


def check_block(file: VolumeFile, number: int, crc: int) -> None:
    """Raise BlockError if a block of a file has another CRC-32 than its index says."""
    if file.extension is not None and crc != file.extension.block_crcs[number]:
        raise BlockError(
            f"block {number} of {file.path} is damaged: it has the CRC-32 {crc:#010x}, the "
            f"index says {file.extension.block_crcs[number]:#010x}. Run `dtsflow repair "
            f"{file.path}`, then export again."
        )


def check_whole(file: VolumeFile, crc: int) -> None:
    """Raise VolumeError if all samples have another CRC-32 than the header says."""
    if crc != file.header.crc_code:
        raise VolumeError(
            f"{file.path} is damaged: its samples have the CRC-32 {crc:#010x}, its header says "
            f"{file.header.crc_code:#010x}. Run `dtsflow verify {file.path}` to see where."
        )
