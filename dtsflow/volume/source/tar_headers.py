"""The members of a tar from its headers alone; what they hold is not read."""

import io
import tarfile
from collections.abc import Iterator
from typing import BinaryIO

from dtsflow.errors import PackError

_MOST_AT_ONCE = 1 << 20  # bytes; a header that asks for more is damaged or hostile
_PIECE_BYTES = 1 << 16
_COMPRESSIONS = {
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
        """The place of the next read, counted from the start of the part."""
        return self._place


def members(part: Part, where: str) -> Iterator[tarfile.TarInfo]:
    """The members in the order of the archive; `offset_data` counts from the part.

    None is kept, so a million take no memory. `where` names the archive in errors.

    Raises:
        PackError: It is compressed, no tar, damaged, or cut short, a missing end mark
            included: without it nothing tells whether members are missing too.
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
    """Why what is no folder has no bytes in one place of the tar; empty if it has."""
    if member.issparse():
        return "a sparse file, which has no one place in a tar"
    if member.issym() or member.islnk():
        return f"a link to {member.linkname}, and links in a tar are not followed"
    return "" if member.isreg() else "neither a file nor a folder"


def _open(part: Part, where: str) -> tarfile.TarFile:
    part.seek(0)
    start = part.read(tarfile.BLOCKSIZE)
    part.seek(0)
    for magic, name in _COMPRESSIONS.items():
        if start.startswith(magic):
            raise compressed(where, name)
    try:
        return tarfile.TarFile(fileobj=part, encoding="utf-8", errors="surrogateescape")
    except _NONSENSE as error:
        raise PackError(
            f"{where} is no tar, or its start is damaged: {error}. Copy or download it again."
        ) from error


def compressed(where: str, how: str) -> PackError:
    """The error for an archive that cannot be read in place."""
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
