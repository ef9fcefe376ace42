"""A set of named tensors in one file; `file_index.py` has the format."""

import os
import secrets
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dtsflow.errors import TensorFileError
from dtsflow.memory.align import ALIGN, align256
from dtsflow.tensor.file_index import HEAD, JSON_START, Entry, decode, encode, json_bytes
from dtsflow.tensor.shape import Shape
from dtsflow.tensor.tensor import Pin, Tensor


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write `tensors` to `path`, in their order, in place of what may lie there.

    The file has its name only when all of it is on the disk: who is killed meanwhile
    leaves the old one.

    Raises:
        TensorFileError: Writing failed, or a name is no printable text.
    """
    entries: list[Entry] = []
    for name, tensor in tensors.items():
        if not name or not name.isprintable():
            raise TensorFileError(
                f"{path}: tensor {len(entries)} has the name {name!r}, and a name is printable "
                "text. Give it another."
            )
        start = entries[-1].end if entries else 0
        sides = tensor.shape.n, tensor.shape.h, tensor.shape.w, tensor.shape.c
        entries.append(Entry(name, tensor.dtype, sides, start, zlib.crc32(tensor.bytes.data)))
    with _replacing(path) as file:
        file.write(encode(entries))
        for tensor in tensors.values():
            file.write(tensor.bytes.data)
            file.write(bytes(-tensor.bytes.size % ALIGN))


def load_tensors(path: Path, *, pin: Pin | None = None) -> dict[str, Tensor]:
    """Read all tensors of a file of `save_tensors`, each into memory of its own.

    Raises:
        TensorFileError: The file cannot be read, is none of tensors, or is cut short or
            damaged; names the tensor where one is concerned.
    """
    try:
        with path.open("rb") as file:
            entries = _read_index(file, path)
            return {entry.name: _read_tensor(file, path, entry, pin) for entry in entries}
    except OSError as error:
        raise TensorFileError(
            f"{path} could not be read: {error}. Check the path and its permissions."
        ) from error


def _read_index(file: BinaryIO, path: Path) -> Sequence[Entry]:
    """The tensors of the file, which is as long as they need; leaves it at the data."""
    size = os.fstat(file.fileno()).st_size
    try:
        head = file.read(HEAD.size)
        start = JSON_START + json_bytes(head)
        _expect_bytes(size, start, "its index")
        entries = decode(head + file.read(start - HEAD.size))
        data = align256(start)
        _check_size(size, data, entries)
    except TensorFileError as error:
        raise TensorFileError(f"{path}: {error}") from error
    file.seek(data)
    return entries


def _check_size(size: int, data: int, entries: Sequence[Entry]) -> None:
    end = data
    for entry in entries:
        end = data + entry.end
        _expect_bytes(size, end, f"tensor {entry.name!r}")
    if size > end:
        raise TensorFileError(
            f"it has {size} bytes and its tensors end at {end}: something was added to it. Take "
            "another copy."
        )


def _expect_bytes(size: int, needed: int, what: str) -> None:
    if size < needed:
        raise TensorFileError(
            f"it has {size} bytes and {what} ends at {needed}: it is cut short. Take another copy."
        )


def _read_tensor(file: BinaryIO, path: Path, entry: Entry, pin: Pin | None) -> Tensor:
    tensor = Tensor.zeros(Shape(*entry.shape), entry.dtype, pin=pin)
    file.readinto(tensor.bytes.data)  # type: ignore[attr-defined]  # BinaryIO lacks what files have
    file.seek(-entry.nbytes % ALIGN, os.SEEK_CUR)
    found = zlib.crc32(tensor.bytes.data)
    if found != entry.crc32:
        raise TensorFileError(
            f"{path}: tensor {entry.name!r} has the CRC-32 {found:#010x} and should have "
            f"{entry.crc32:#010x}: it is damaged. Take another copy."
        )
    return tensor


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` if the block ends well."""
    # Hidden, in the same folder: the rename stays on one disk.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise TensorFileError(
            f"{path} could not be written: {error}. What lay there before is unharmed; check the "
            "disk and its free space, then try again."
        ) from error
    finally:
        with suppress(OSError):  # the name itself may be what the system refuses
            temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # elsewhere a folder cannot be opened, and a rename needs no such help
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
