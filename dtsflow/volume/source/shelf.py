"""Files by name, in a folder or inside a tar, for sets that are a few known files."""

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, cast

from dtsflow.errors import PackError
from dtsflow.volume.exact_read import PIECE_BYTES

# No public small set has more members, or more bytes: CIFAR-100 takes 184 MB. What goes
# on after that is another kind of archive.
_MOST_MEMBERS = 64
_MOST_BYTES = 1 << 29
_TAR = (".tar",)
_PACKED_TAR = (".tar.gz", ".tgz")
GZIP = ".gz"


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """The files that lie directly in a folder, or anywhere in a tar, by base name.

    `contents` has the bytes of the wanted members of a tar; None for a folder, whose
    files are read where they are.
    """

    place: Path
    names: frozenset[str]
    contents: Mapping[str, bytes] | None = None

    def where(self, name: str) -> str:
        """A file's place, for a message."""
        return str(self.place / name) if self.contents is None else f"{self.place}: {name}"

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """One file for reading from its start; a `.gz` is unpacked on the way.

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


def open_shelf(path: Path, wanted: Collection[str], known: Collection[str]) -> Shelf | None:
    """The files at `path`, a folder or a tar (`.tar`, `.tar.gz`, `.tgz`); else None.

    Of a tar the members named in `wanted` are read into memory. A tar that has none of
    the `known` names among its first members is None, however large it is.

    Raises:
        PackError: The folder cannot be listed, or the tar is damaged.
    """
    if path.is_dir():
        return Shelf(path, _file_names(path))
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
) -> Shelf | None:
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
    return Shelf(path, frozenset(names), contents) if names else None


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
