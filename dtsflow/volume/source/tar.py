"""A tar, or a tar of tars, as a source that is read in place.

`members` lists a tar from its headers alone and does not read what they hold.
`ClassFolders` decides which folders of an archive are its classes.
"""

import io
import os
import tarfile
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dtsflow.errors import PackError
from dtsflow.volume.source.base import (
    NO_CLASS,
    Listing,
    Reject,
    SourceImage,
    Stored,
    clean,
    is_hidden,
    why_unsafe,
)

_MOST_AT_ONCE = 1 << 20  # bytes; a header that asks for more is damaged or hostile
_PIECE_BYTES = 1 << 16
_MAGICS = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
# What tarfile lets through where the checksum is right and the values are not.
_NONSENSE = (tarfile.TarError, ValueError, ArithmeticError, LookupError, RecursionError)


class Part(io.RawIOBase):
    """`size` bytes of an open file from `start` on, as a file of its own.

    The file is not closed with it. Reads are short where the part ends.
    """

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        super().__init__()
        self.start = start
        self.size = size
        self._file = file
        self._place = 0

    def read(self, size: int = -1, /) -> bytes:
        """Read up to `size` bytes.

        Raises:
            ValueError: `size` is negative, or more than any header needs.
        """
        if not 0 <= size <= _MOST_AT_ONCE:
            raise ValueError(f"a header of {size} bytes")
        self._file.seek(self.start + self._place)
        data = self._file.read(max(0, min(size, self.size - self._place)))
        self._place += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to `offset`, counted from the start of the part."""
        assert whence == io.SEEK_SET
        if offset < 0:
            raise ValueError(f"an offset of {offset}")
        self._place = offset
        return offset

    def tell(self) -> int:
        """Return the position of the next read, counted from the start of the part."""
        return self._place


def members(part: Part, where: str) -> Iterator[tarfile.TarInfo]:
    """Yield the members in the archive's order; `offset_data` counts from the part.

    No member is kept, so a million take no memory. `where` names the archive in errors.

    Raises:
        PackError: It is compressed, not a tar, damaged or cut short. A missing end mark
            counts as cut short, because members may be missing too.
    """
    tar = _open(part, where)
    place = 0
    last = "its start"
    while True:
        try:
            part.seek(place)
            member = tarfile.TarInfo.fromtarfile(tar)
        except tarfile.HeaderError as error:
            _check_end(part, place, f"{where} (after {last})", error)
            return
        except _NONSENSE as error:
            raise _damaged(f"{where} (after {last})", part.start + place, str(error)) from error
        _check_member(part, member, place, tar.offset, where)
        yield member
        place = tar.offset
        last = member.name


def why_unreadable(member: tarfile.TarInfo) -> str:
    """Explain why a member's bytes cannot be read in one piece; empty if they can."""
    if member.issparse():
        return "a sparse file, which has no one place in a tar"
    if member.issym() or member.islnk():
        return f"a link to {member.linkname}, and links in a tar are not followed"
    return "" if member.isreg() else "neither a file nor a folder"


def _open(part: Part, where: str) -> tarfile.TarFile:
    part.seek(0)
    start = part.read(tarfile.BLOCKSIZE)
    part.seek(0)
    for magic, name in _MAGICS.items():
        if start.startswith(magic):
            raise compressed(where, name)
    try:
        return tarfile.TarFile(fileobj=part, encoding="utf-8", errors="surrogateescape")
    except _NONSENSE as error:
        raise PackError(
            f"{where} is no tar, or its start is damaged: {error}. Copy or download it again."
        ) from error


def compressed(where: str, how: str) -> PackError:
    """Make the error for an archive that cannot be read in place."""
    return PackError(
        f"{where} is compressed ({how}), and images are read in place from plain tars only. "
        "Decompress it first (gunzip, bunzip2, unxz or unzstd), then pack the .tar."
    )


def _check_member(
    part: Part, member: tarfile.TarInfo, place: int, following: int, where: str
) -> None:
    if member.size < 0 or following <= place:
        raise _damaged(where, part.start + place, f"{member.name!r} has {member.size} bytes")
    end = member.offset_data + member.size
    if member.isreg() and end > part.size:
        raise PackError(
            f"{where} is cut short: its member {member.name!r} ends at byte {part.start + end}, "
            f"the archive at {part.start + part.size}. Copy or download it again."
        )


def _check_end(part: Part, place: int, where: str, error: tarfile.HeaderError) -> None:
    part.seek(place)
    block = part.read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE:
        raise PackError(
            f"{where} is cut short: it ends at byte {part.start + part.size} without the zeros "
            "that end a tar. Copy or download it again."
        ) from error
    if any(block):
        raise _damaged(where, part.start + place, str(error)) from error
    while piece := part.read(_PIECE_BYTES):
        if any(piece):
            raise PackError(
                f"{where} goes on after the end mark at byte {part.start + place}: several tars "
                "in one file. Split them, or put them into one tar."
            )


def _damaged(where: str, place: int, what: str) -> PackError:
    return PackError(
        f"{where} is damaged: the header at byte {place} cannot be right: {what}. Copy or "
        "download it again."
    )


@dataclass(frozen=True, slots=True)
class ClassFolders:
    """`root` is the folder around everything, or empty.

    `names` are the class folders below it, sorted, without it.
    """

    root: str
    names: tuple[str, ...]

    def below_root(self, name: str) -> str:
        """Return a path of the archive without the root."""
        return name[len(self.root) + 1 :] if self.root else name


def class_folders(holders: AbstractSet[str], folders: Iterable[str]) -> ClassFolders:
    """Tell classes from the folders around them.

    `holders` are the folders that hold files, empty for the top of the archive;
    `folders` all that the archive names. A class is a folder that holds files or holds
    no folder. The chain of folders that all classes share is the root, and left out; if
    all files lie in one folder, that folder is the class.
    """
    everything = set[str]()
    for folder in {*holders, *folders}:
        everything.update(_with_parents(folder))
    parents = {folder.rpartition("/")[0] for folder in everything}
    candidates = (holders | (everything - parents)) - {""}
    root = _root(holders, candidates)
    named = ClassFolders(root, ())
    names = sorted(named.below_root(folder) for folder in candidates if folder != root)
    return ClassFolders(root, tuple(names))


def _root(holders: AbstractSet[str], candidates: AbstractSet[str]) -> str:
    if not candidates or "" in holders:
        return ""
    if len(candidates) == 1:
        return next(iter(candidates)).rpartition("/")[0]
    parted = [folder.split("/") for folder in candidates]
    # What the first and the last in order share, all between them share too.
    shared = []
    for one, other in zip(min(parted), max(parted), strict=False):
        if one != other:
            break
        shared.append(one)
    return "/".join(shared)


def _with_parents(folder: str) -> Iterable[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


TAR_SUFFIX = ".tar"
_COMPRESSIONS = ("gz", "bz2", "xz", "lzma", "zst", "lz4", "z")
COMPRESSED_SUFFIXES = (
    *(f"{TAR_SUFFIX}.{how}" for how in _COMPRESSIONS),
    *(".tgz", ".tbz", ".tbz2", ".txz", ".tzst"),
)


def read_tar(path: Path) -> Listing:
    """List the images in a tar without unpacking it.

    Classes are folders, as `read_tree` finds them in the unpacked archive; the chain of
    folders around all of them is left out of the names, so `train/n01/x.JPEG` is
    `n01/x.JPEG`. If all files lie in one folder, that is the class. A tar in the tar
    stands for a folder with its name, so ImageNet as downloaded, a tar of one tar per
    class, has the names of the inner tars as classes; a folder in it with its own name
    is the same folder. Files in no folder have no class.

    Links, devices, sparse files, a tar three levels down, names that lead out of the
    archive and second members of a name are rejects; hidden members are not looked at.

    Raises:
        PackError: The tar or one in it cannot be read, is compressed, damaged or cut
            short; names it and the byte.
    """
    try:
        with path.open("rb", buffering=0) as file:
            found = _Found(str(path), os.fstat(file.fileno()))
            _read_outer(file, found)
    except OSError as error:
        raise PackError(f"{path} cannot be read: {error.strerror}.") from error
    return found.listing()


class _Found:
    """The members that were found so far, by their path in the archive."""

    def __init__(self, path: str, state: os.stat_result) -> None:
        self.path = path
        self.bytes = state.st_size
        self._mtime_ns = state.st_mtime_ns
        self._files: dict[str, Stored] = {}
        self._folders: set[str] = set()
        self._holders: set[str] = set()
        self._rejects: list[Reject] = []

    def add_file(self, name: str, offset: int, size: int) -> None:
        if name in self._files:
            self.reject(name, "a second member of this name")
            return
        self._files[name] = Stored(self.path, offset, size, self.bytes, self._mtime_ns)
        self._holders.add(name.rpartition("/")[0])

    def add_folder(self, name: str) -> None:
        self._folders.add(name)

    def reject(self, name: str, reason: str) -> None:
        self._rejects.append(Reject(name, reason))
        if not why_unsafe(name):
            self._holders.add(name.rpartition("/")[0])

    def listing(self) -> Listing:
        found = class_folders(self._holders, self._folders)
        labels = {name: label for label, name in enumerate(found.names)}
        images = []
        for full in sorted(self._files):
            name = found.below_root(full)
            label = labels.get(name.rpartition("/")[0], NO_CLASS)
            images.append(SourceImage(name, label, self._files.pop(full)))
        rejects = [
            one if why_unsafe(one.name) else Reject(found.below_root(one.name), one.reason)
            for one in self._rejects
        ]
        rejects.sort(key=lambda reject: reject.name)
        return Listing(found.names, tuple(images), tuple(rejects))


def _read_outer(file: BinaryIO, found: _Found) -> None:
    for member in members(Part(file, 0, found.bytes), found.path):
        name = _name_of(member, found)
        if not name:
            continue
        if not (member.isreg() and not member.issparse() and _is_archive(name)):
            _add(member, name, 0, found)
            continue
        where = f"{name} in {found.path}"
        if not name.lower().endswith(TAR_SUFFIX):
            raise compressed(where, name.rpartition(".")[2])
        _read_inner(
            Part(file, member.offset_data, member.size), where, name[: -len(TAR_SUFFIX)], found
        )


def _read_inner(part: Part, where: str, folder: str, found: _Found) -> None:
    above, slash, own = folder.rpartition("/")
    found.add_folder(folder)
    for member in members(part, where):
        name = _name_of(member, found)
        if not name:
            continue
        repeats = name.startswith(f"{own}/") or (name == own and member.isdir())
        full = f"{above}{slash}{name}" if repeats else f"{folder}/{name}"
        if member.isreg() and _is_archive(name):
            found.reject(full, "a tar in a tar in a tar: unpack one level")
        else:
            _add(member, full, part.start, found)


def _add(member: tarfile.TarInfo, name: str, start: int, found: _Found) -> None:
    if member.isdir():
        found.add_folder(name)
    elif reason := why_unreadable(member):
        found.reject(name, reason)
    else:
        found.add_file(name, start + member.offset_data, member.size)


def _name_of(member: tarfile.TarInfo, found: _Found) -> str:
    """Return the clean name; empty if hidden, refused, or the top folder itself."""
    reason = why_unsafe(member.name)
    if reason:
        found.reject(member.name, reason)
        return ""
    name = clean(member.name)
    return "" if is_hidden(name) else name


def _is_archive(name: str) -> bool:
    return name.lower().endswith((TAR_SUFFIX, *COMPRESSED_SUFFIXES))
