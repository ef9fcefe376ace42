"""MNIST and CIFAR from their public files, or from a volume of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dtsflow.errors import PackError
from dtsflow.volume.checksum import crc32
from dtsflow.volume.exact_read import opened, read_bytes
from dtsflow.volume.file import read_file, read_header
from dtsflow.volume.format import SMALL_AREA_BYTES, SUFFIX, Kind
from dtsflow.volume.small import SMALL_SETS
from dtsflow.volume.source.cifar import read_cifar
from dtsflow.volume.source.declared import Bytes, check_labels
from dtsflow.volume.source.idx import read_idx_images, read_idx_labels
from dtsflow.volume.source.shelf import GZIP, Shelf, open_shelf

SPLITS = ("train", "test")

_IDX = {"train": "train", "test": "t10k"}  # how MNIST's file names begin
_RECORDS = {
    (Kind.CIFAR10, "train"): tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    (Kind.CIFAR10, "test"): ("test_batch.bin",),
    (Kind.CIFAR100, "train"): ("train.bin",),
    (Kind.CIFAR100, "test"): ("test.bin",),
}
# What the Python versions hold: all names of one line together give them away.
_PICKLES = ({"data_batch_1"}, {"test_batch"}, {"train", "test", "meta"})
_PICKLE_NAMES = {"data_batch_1", "test_batch"}  # the others are in many an archive
_PICKLE_ARCHIVES = ("cifar-10-python", "cifar-100-python")


@dataclass(frozen=True, slots=True, eq=False)
class PixelSet:
    """All samples of an MNIST or CIFAR part, in their order.

    `labels` has one per sample, each a class of the set; `pixels` one row per sample,
    height by width by channel.
    """

    kind: Kind
    labels: Bytes
    pixels: Bytes

    def __post_init__(self) -> None:
        layout = SMALL_SETS[self.kind]
        assert self.labels.dtype == self.pixels.dtype == np.uint8
        assert self.pixels.shape == (len(self.labels), layout.sample_bytes)
        assert len(self.labels) > 0
        assert self.labels.max() < len(layout.class_names)


def find_pixels(path: Path, split: str) -> PixelSet | None:
    """Read one part of MNIST, CIFAR-10 or CIFAR-100 from `path`; None if it is none.

    `path` is a folder of the public files (MNIST's idx files, CIFAR's binary version),
    a tar of them, or a DTS volume that holds such a set, which is read whole whatever
    part it says it is.

    Raises:
        PackError: It is one, and a file is missing or damaged, or it is the Python
            version, or `split` is neither train nor test. Names the file.
        VolumeError: A DTS volume is damaged.
    """
    if path.suffix == SUFFIX and path.is_file():
        if read_header(path).dataset_type.in_blocks:
            return None
        _check_split(path, split)
        return _read_volume(path)
    _refuse_pickle_archive(path)
    parts = {part: tuple(_names(*part)) for part in _parts()}
    known = {name for names in parts.values() for name in names} | _PICKLE_NAMES
    wanted = {name for (_, of), names in parts.items() if of == split for name in names}
    shelf = open_shelf(path, wanted, known)
    if shelf is None:
        return None
    kinds = {kind for (kind, _), names in parts.items() if not shelf.names.isdisjoint(names)}
    if not kinds:
        _refuse_pickles(shelf)
        return None
    if len(kinds) > 1:
        raise PackError(
            f"{path} holds files of {' and '.join(sorted(kind.value for kind in kinds))}. Put "
            "those of one set in a folder, and name that."
        )
    _check_split(path, split)
    (kind,) = kinds
    return _read_mnist(shelf, split) if kind is Kind.MNIST else _read_cifar(shelf, kind, split)


def _parts() -> Iterable[tuple[Kind, str]]:
    return ((kind, split) for kind in SMALL_SETS for split in SPLITS)


def _names(kind: Kind, split: str) -> Iterable[str]:
    """Every name that a file of this part may have."""
    if kind is Kind.MNIST:
        return (*_idx_names("images", split), *_idx_names("labels", split))
    return _RECORDS[kind, split]


def _idx_names(what: str, split: str) -> tuple[str, ...]:
    dimensions = 3 if what == "images" else 1
    plain = [f"{_IDX[split]}-{what}{mark}idx{dimensions}-ubyte" for mark in "-."]
    return (*plain, *(name + GZIP for name in plain))


def _read_mnist(shelf: Shelf, split: str) -> PixelSet:
    images, labels = (_choose(shelf, _idx_names(what, split)) for what in ("images", "labels"))
    with shelf.opened(labels) as stream:
        numbers = read_idx_labels(stream, shelf.where(labels))
    with shelf.opened(images) as stream:
        return PixelSet(
            Kind.MNIST, numbers, read_idx_images(stream, len(numbers), shelf.where(images))
        )


def _read_cifar(shelf: Shelf, kind: Kind, split: str) -> PixelSet:
    parts = []
    for name in _RECORDS[kind, split]:
        with shelf.opened(_choose(shelf, (name,))) as stream:
            parts.append(read_cifar(stream, kind, shelf.where(name)))
    labels, pixels = zip(*parts, strict=True)
    return PixelSet(kind, np.concatenate(labels), np.concatenate(pixels))


def _choose(shelf: Shelf, names: tuple[str, ...]) -> str:
    """The first of several spellings that is there; plain before packed."""
    for name in names:
        if name in shelf.names:
            return name
    packed = f" (or {names[0]}{GZIP})" if len(names) > 1 else ""
    raise PackError(
        f"{shelf.place} has no {names[0]}{packed}, and other files of the same set. Put all of "
        "them there, or choose the other split."
    )


def _read_volume(path: Path) -> PixelSet:
    file = read_file(path)
    layout = SMALL_SETS[file.header.dataset_type]
    samples = file.num_samples
    with opened(path) as descriptor:
        payload = read_bytes(descriptor, samples * layout.record_bytes, SMALL_AREA_BYTES, path)
    crc = crc32(payload.data)
    if crc != file.header.crc_code:
        raise PackError(
            f"{path} is damaged: its labels and pixels have the CRC-32 {crc:#010x}, its header "
            f"says {file.header.crc_code:#010x}. Copy or export it again."
        )
    labels, pixels = payload[:samples], payload[samples:].reshape(samples, layout.sample_bytes)
    check_labels(labels, len(layout.class_names), str(path))
    return PixelSet(file.header.dataset_type, labels, pixels)


def _check_split(path: Path, split: str) -> None:
    if split not in SPLITS:
        raise PackError(
            f"{path} holds MNIST or CIFAR, which have train and test and no {split}. Choose "
            "one of the two."
        )


def _refuse_pickle_archive(path: Path) -> None:
    if path.name.lower().startswith(_PICKLE_ARCHIVES) and path.is_file():
        raise _pickled(path)


def _refuse_pickles(shelf: Shelf) -> None:
    if any(names <= shelf.names for names in _PICKLES):
        raise _pickled(shelf.place)


def _pickled(place: Path) -> PackError:
    return PackError(
        f"{place} is the Python version of CIFAR, made of pickles, which can run any code when "
        "they are read and never are here. Get the binary version (cifar-10-binary.tar.gz, "
        "cifar-100-binary.tar.gz) and name that."
    )
