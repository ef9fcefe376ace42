"""A tar, or a tar of tars, read in place."""

import os
import tarfile
from pathlib import Path
from typing import BinaryIO

from dtsflow.errors import PackError
from dtsflow.volume.source.listing import NO_CLASS, Listing, Reject, SourceImage
from dtsflow.volume.source.safe_name import clean, is_hidden, why_unsafe
from dtsflow.volume.source.stored import Stored
from dtsflow.volume.source.tar_folders import class_folders
from dtsflow.volume.source.tar_headers import Part, compressed, members, why_unreadable

TAR_SUFFIX = ".tar"
_COMPRESSIONS = ("gz", "bz2", "xz", "lzma", "zst", "lz4", "z")
COMPRESSED_SUFFIXES = (
    *(f"{TAR_SUFFIX}.{how}" for how in _COMPRESSIONS),
    *(".tgz", ".tbz", ".tbz2", ".txz", ".tzst"),
)


def read_tar(path: Path) -> Listing:
    """List the images in a tar without unpacking it.

    Classes are folders, as `read_tree` finds them in the unpacked archive; the chain of
    folders around all of them has no part in the names, so `train/n01/x.JPEG` is
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
    """What was found so far, by its path in the archive."""

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
    """The clean name; empty for what is hidden, refused, or the top folder itself."""
    reason = why_unsafe(member.name)
    if reason:
        found.reject(member.name, reason)
        return ""
    name = clean(member.name)
    return "" if is_hidden(name) else name


def _is_archive(name: str) -> bool:
    return name.lower().endswith((TAR_SUFFIX, *COMPRESSED_SUFFIXES))
