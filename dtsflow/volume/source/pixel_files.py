"""MNIST and CIFAR from their public files, or from a volume of them.

MNIST and sets like it are published as idx files, CIFAR-10 and CIFAR-100 in binary
versions. `take` reads from a stream as many bytes as its start declares, and no more.
`ArchiveFiles` finds files by name in a folder or inside a tar.
"""

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, cast

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PackError
from dtsflow.volume.format.file import read_file, read_header
from dtsflow.volume.format.header import SMALL_AREA_BYTES, SUFFIX, Kind
from dtsflow.volume.format.io import PIECE_BYTES, crc32, opened, read_bytes
from dtsflow.volume.format.pixel_file import SMALL_SETS, most_samples

Bytes = npt.NDArray[np.uint8]


def take(stream: IO[bytes], size: int, where: str) -> Bytes:
    """Read the next `size` bytes of a stream; `where` names it in messages.

    Raises:
        PackError: It ends first.
    """
    memory = np.empty(size, np.uint8)
    done = 0
    while done < size:
        piece = stream.read(min(PIECE_BYTES, size - done))
        if not piece:
            raise PackError(
                f"{where} is cut short: it declares {size} more bytes and has {done}. Get the "
                "file again."
            )
        memory[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
    return memory


def finish(stream: IO[bytes], declared: int, where: str) -> None:
    """Check that a stream ends here, after the `declared` bytes.

    This also makes a gzip check itself, because its checksum lies at its end.

    Raises:
        PackError: More bytes come; they are not all read.
    """
    rest = len(stream.read(PIECE_BYTES))
    if rest:
        raise PackError(
            f"{where} declares {declared} bytes and has at least {declared + rest}. It is "
            "damaged, or another kind of file: get it again."
        )


def check_labels(labels: Bytes, classes: int, where: str) -> None:
    """Refuse a set without labels, and a label that is not a class.

    Raises:
        PackError: Names the first wrong sample, its label and the classes.
    """
    if len(labels) == 0:
        raise PackError(f"{where} holds no sample (0, it takes 1 or more). Get the file again.")
    if labels.max() >= classes:
        sample = int(np.argmax(labels >= classes))
        raise PackError(
            f"{where}: sample {sample} has label {labels[sample]}, the set has {classes} "
            "classes. The file is damaged, or of another set: get it again."
        )


def check_count(samples: int, most: int, where: str) -> None:
    """Refuse more samples than a volume can hold, before memory is taken for them.

    Raises:
        PackError: Names both numbers.
    """
    if samples > most:
        raise PackError(
            f"{where} declares {samples} samples, a volume of its kind holds {most}. The file "
            "is damaged, or of another set."
        )


LABEL_MAGIC, IMAGE_MAGIC = 2049, 2051
_WORD_BYTES = 4


def read_idx_labels(stream: IO[bytes], where: str) -> Bytes:
    """Read all labels of an idx file; `where` names it in messages.

    Raises:
        PackError: Another magic, cut short, bytes left over, no label, or a wrong one.
    """
    layout = SMALL_SETS[Kind.MNIST]
    (samples,) = _words(stream, LABEL_MAGIC, 1, where)
    check_count(samples, most_samples(Kind.MNIST), where)
    labels = take(stream, samples, where)
    finish(stream, samples + 2 * _WORD_BYTES, where)
    check_labels(labels, len(layout.class_names), where)
    return labels


def read_idx_images(stream: IO[bytes], samples: int, where: str) -> Bytes:
    """Read all images of an idx file, one a row, whose labels are `samples`.

    Raises:
        PackError: Another magic, number or size of images, cut short, or bytes left
            over.
    """
    layout = SMALL_SETS[Kind.MNIST]
    count, height, width = _words(stream, IMAGE_MAGIC, 3, where)
    if count != samples:
        raise PackError(
            f"{where} counts {count} images, the labels beside it are {samples}. One of the "
            "two files belongs to another set: get both again."
        )
    if (height, width) != (layout.height, layout.width):
        raise PackError(
            f"{where} has images of {height} by {width}, MNIST's are {layout.height} by "
            f"{layout.width}. Write them as PNG files in class folders and pack those."
        )
    pixels = take(stream, samples * layout.sample_bytes, where)
    finish(stream, len(pixels) + 4 * _WORD_BYTES, where)
    return pixels.reshape(samples, layout.sample_bytes)


def _words(stream: IO[bytes], magic: int, count: int, where: str) -> list[int]:
    found, *words = take(stream, (1 + count) * _WORD_BYTES, where).view(">u4").tolist()
    if found != magic:
        raise PackError(
            f"{where} starts with the number {found}, an idx file of this kind with {magic}. "
            "It is another file under this name, or damaged: get it again."
        )
    return [int(word) for word in words]


# Classes of each label byte of a record: of CIFAR-100 the coarse one comes first.
_LABELS = {Kind.CIFAR10: (10,), Kind.CIFAR100: (20, 100)}


def read_cifar(stream: IO[bytes], kind: Kind, where: str) -> tuple[Bytes, Bytes]:
    """Read labels and images of one file of records, images one a row, interleaved.

    Of CIFAR-100's two labels the fine one is kept.

    Raises:
        PackError: Not a whole number of records, none, or a label that is not a class.
    """
    layout = SMALL_SETS[kind]
    classes = _LABELS[kind]
    record_bytes = len(classes) + layout.sample_bytes
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    samples, rest = divmod(size, record_bytes)
    if rest:
        raise PackError(
            f"{where} has {size} bytes, which are {samples} records of {record_bytes} and {rest} "
            "more. It is cut short, or another file under this name: get it again."
        )
    check_count(samples, most_samples(kind), where)
    records = take(stream, size, where).reshape(samples, record_bytes)
    for column, count in enumerate(classes):
        check_labels(records[:, column], count, where)
    planes = records[:, len(classes) :].reshape(samples, layout.channels, -1)
    pixels = planes.transpose(0, 2, 1).reshape(samples, layout.sample_bytes)
    return records[:, len(classes) - 1].copy(), np.ascontiguousarray(pixels)


# No public small set has more members, or more bytes: CIFAR-100 takes 184 MB. What goes
# on after that is another kind of archive.
_MOST_MEMBERS = 64
_MOST_BYTES = 1 << 29
_TAR = (".tar",)
_PACKED_TAR = (".tar.gz", ".tgz")
GZIP = ".gz"


@dataclass(frozen=True, slots=True, eq=False)
class ArchiveFiles:
    """The files that lie directly in a folder, or anywhere in a tar, by base name.

    `contents` has the bytes of the wanted members of a tar; None for a folder, whose
    files are read where they are.
    """

    place: Path
    names: frozenset[str]
    contents: Mapping[str, bytes] | None = None

    def where(self, name: str) -> str:
        """Describe in words where a file lies, for a message."""
        return str(self.place / name) if self.contents is None else f"{self.place}: {name}"

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """Open one file for reading from its start; unpack a `.gz` on the way.

        Raises:
            PackError: The file cannot be read, or its packing is damaged.
        """
        with _refusing_damage(self.where(name)), self._raw(name) as raw:
            if name.endswith(GZIP):
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield cast("IO[bytes]", unpacked)
            else:
                yield raw

    def _raw(self, name: str) -> IO[bytes]:
        if self.contents is None:
            return (self.place / name).open("rb")
        return io.BytesIO(self.contents[name])


def open_shelf(path: Path, wanted: Collection[str], known: Collection[str]) -> ArchiveFiles | None:
    """Open the files of a folder or a tar (`.tar`, `.tar.gz`, `.tgz`); else None.

    Of a tar the members named in `wanted` are read into memory. A tar that has none of
    the `known` names among its first members is None, however large it is.

    Raises:
        PackError: The folder cannot be listed, or the tar is damaged.
    """
    if path.is_dir():
        return ArchiveFiles(path, _file_names(path))
    name = path.name.lower()
    if not path.is_file() or not name.endswith(_TAR + _PACKED_TAR):
        return None
    with _refusing_damage(str(path)), path.open("rb") as raw:
        if name.endswith(_TAR):
            return _read_tar(path, raw, wanted, known)
        with gzip.GzipFile(fileobj=raw) as unpacked:
            return _read_tar(path, unpacked, wanted, known)


def _file_names(folder: Path) -> frozenset[str]:
    try:
        with os.scandir(folder) as scan:
            return frozenset(entry.name for entry in scan if entry.is_file())
    except OSError as error:
        raise PackError(f"{folder} cannot be listed: {error.strerror}.") from error


def _read_tar(
    path: Path,
    stream: IO[bytes] | gzip.GzipFile,
    wanted: Collection[str],
    known: Collection[str],
) -> ArchiveFiles | None:
    """Read a tar from front to back, never more than `_MOST_BYTES` of it."""
    names: set[str] = set()
    contents: dict[str, bytes] = {}
    limited = _Limited(stream)
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", limited), mode="r|") as tar:
            for member in islice(tar, _MOST_MEMBERS):
                name = Path(member.name).name
                if member.isdir() or name not in known:
                    continue
                if name in contents:
                    raise PackError(_twice(path, name))
                names.add(name)
                if name in wanted:
                    contents[name] = _member(tar, member, path)
    except (_TooLongError, tarfile.TarError, ValueError, RecursionError) as error:
        # Where no file of a small set was seen, others may know what this is.
        if names:
            raise PackError(_damaged(str(path), error)) from error
    if isinstance(stream, gzip.GzipFile):
        _drain(limited)  # tarfile takes some damage for the end; the checksum lies behind
    return ArchiveFiles(path, frozenset(names), contents) if names else None


def _drain(limited: "_Limited") -> None:
    """Read on to the end or to the limit."""
    with suppress(_TooLongError):
        while limited.read(PIECE_BYTES):
            pass


def _twice(path: Path, name: str) -> str:
    return (
        f"{path} holds two members called {name}. Take the one you mean out of it, into a "
        "folder, and name that."
    )


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> bytes:
    opened = tar.extractfile(member) if member.isreg() and not member.issparse() else None
    if opened is None:
        raise PackError(
            f"{path}: the member {member.name} is a link or another special file. Get the "
            "archive again."
        )
    data = opened.read()
    if len(data) != member.size:
        raise PackError(
            f"{path} is cut short: its member {member.name} has {len(data)} of {member.size} "
            "bytes. Get the archive again."
        )
    return data


class _TooLongError(Exception):
    """The archive is larger than any small set."""

    def __str__(self) -> str:
        return f"no small set has over {_MOST_BYTES} bytes"


class _Limited:
    """The first bytes of a stream; asking for more is an error."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile) -> None:
        self._stream = stream
        self._left = _MOST_BYTES

    def read(self, size: int) -> bytes:
        try:
            data = self._stream.read(size)
        except zlib.error as error:  # which tarfile would take for a wrong header
            raise gzip.BadGzipFile(str(error)) from error
        self._left -= len(data)
        if self._left < 0:
            raise _TooLongError
        return data


@contextmanager
def _refusing_damage(where: str) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise PackError(_damaged(where, error)) from error


def _damaged(where: str, error: Exception) -> str:
    return f"{where} cannot be read: {error}. Get the file again, or check the disk."


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
    a tar of them, or a DTS volume that holds such a set, which is read as a whole,
    whatever part its header names.

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
    """Return every name that a file of this part may have."""
    if kind is Kind.MNIST:
        return (*_idx_names("images", split), *_idx_names("labels", split))
    return _RECORDS[kind, split]


def _idx_names(what: str, split: str) -> tuple[str, ...]:
    dimensions = 3 if what == "images" else 1
    plain = [f"{_IDX[split]}-{what}{mark}idx{dimensions}-ubyte" for mark in "-."]
    return (*plain, *(name + GZIP for name in plain))


def _read_mnist(shelf: ArchiveFiles, split: str) -> PixelSet:
    images, labels = (_choose(shelf, _idx_names(what, split)) for what in ("images", "labels"))
    with shelf.opened(labels) as stream:
        numbers = read_idx_labels(stream, shelf.where(labels))
    with shelf.opened(images) as stream:
        return PixelSet(
            Kind.MNIST, numbers, read_idx_images(stream, len(numbers), shelf.where(images))
        )


def _read_cifar(shelf: ArchiveFiles, kind: Kind, split: str) -> PixelSet:
    parts = []
    for name in _RECORDS[kind, split]:
        with shelf.opened(_choose(shelf, (name,))) as stream:
            parts.append(read_cifar(stream, kind, shelf.where(name)))
    labels, pixels = zip(*parts, strict=True)
    return PixelSet(kind, np.concatenate(labels), np.concatenate(pixels))


def _choose(shelf: ArchiveFiles, names: tuple[str, ...]) -> str:
    """Choose the first of several spellings that is there; plain before packed."""
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


def _refuse_pickles(shelf: ArchiveFiles) -> None:
    if any(names <= shelf.names for names in _PICKLES):
        raise _pickled(shelf.place)


def _pickled(place: Path) -> PackError:
    return PackError(
        f"{place} is the Python version of CIFAR, made of pickles, which can run any code when "
        "they are read and never are here. Get the binary version (cifar-10-binary.tar.gz, "
        "cifar-100-binary.tar.gz) and name that."
    )
