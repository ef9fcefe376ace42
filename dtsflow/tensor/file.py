"""A set of named tensors in one file: its format, saving and loading.

    0    8 bytes   DTSFTENS
    8    u32 LE    version, 1
    12   u32       length of the JSON
    16   u32       CRC-32 of bytes 0..15 and the JSON
    20   JSON      a list with an object for each tensor, in the order of the data:
                   name, dtype, shape (n, h, w, c), offset and CRC-32 of its bytes

Zeros follow to the next multiple of 256, where the data begins; offsets count from
there. Each tensor lies at the first multiple of 256 after the one before it, compact
and little-endian, and zeros fill the file up to a multiple of 256.
"""

import json
import os
import secrets
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, BinaryIO, Final

from pydantic import Field, TypeAdapter, ValidationError

from dtsflow.errors import TensorFileError
from dtsflow.memory.align import ALIGN, align256
from dtsflow.tensor.dtype import DType
from dtsflow.tensor.shape import Shape
from dtsflow.tensor.tensor import Pin, Tensor

MAGIC: Final = b"DTSFTENS"
VERSION: Final = 1
HEAD: Final = struct.Struct("<8sII")
_CRC: Final = struct.Struct("<I")
JSON_START: Final = HEAD.size + _CRC.size

_Side = Annotated[int, Field(ge=1)]
_Word = Annotated[int, Field(ge=0, lt=1 << 32)]


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file; `offset` counts bytes from where the data begins."""

    name: Annotated[str, Field(min_length=1)]
    dtype: DType
    shape: tuple[_Side, _Side, _Side, _Side]
    offset: int
    crc32: _Word

    @property
    def nbytes(self) -> int:
        """Return the bytes of its elements."""
        n, h, w, c = self.shape
        return n * h * w * c * self.dtype.itemsize

    @property
    def end(self) -> int:
        """Return where the next tensor begins, or the data ends."""
        return self.offset + align256(self.nbytes)


_ENTRIES: Final = TypeAdapter(tuple[Entry, ...])


def encode(entries: Sequence[Entry]) -> bytes:
    """Return the file's bytes up to its data."""
    plain = [{**asdict(entry), "dtype": entry.dtype.value} for entry in entries]
    text = json.dumps(plain, separators=(",", ":")).encode()
    head = HEAD.pack(MAGIC, VERSION, len(text))
    crc = _CRC.pack(zlib.crc32(text, zlib.crc32(head)))
    whole = head + crc + text
    return whole.ljust(align256(len(whole)), b"\0")


def json_bytes(head: bytes) -> int:
    """Return the length of the JSON, from a file's first 16 bytes.

    Raises:
        TensorFileError: They are not those of a file of tensors, of this version.
    """
    if len(head) < HEAD.size or not head.startswith(MAGIC):
        raise TensorFileError(
            f"it begins with {head[: len(MAGIC)]!r} and a file of tensors with {MAGIC!r}. "
            "Name a file that save_tensors wrote."
        )
    _, version, length = HEAD.unpack_from(head)
    if version != VERSION:
        raise TensorFileError(
            f"it has version {version} and this dtsflow reads {VERSION}. Read it with the "
            "dtsflow that wrote it."
        )
    return int(length)


def decode(index: bytes) -> tuple[Entry, ...]:
    """Read the tensors of a file, from its bytes up to the end of the JSON.

    Raises:
        TensorFileError: They are damaged, or place a tensor where none may lie.
    """
    head, text = index[: HEAD.size], index[JSON_START:]
    (stored,) = _CRC.unpack_from(index, HEAD.size)
    found = zlib.crc32(text, zlib.crc32(head))
    if found != stored:
        raise TensorFileError(
            f"its index has the CRC-32 {found:#010x} and should have {stored:#010x}: it is "
            "damaged. Take another copy."
        )
    try:
        entries = _ENTRIES.validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise TensorFileError(
            f"its index is not what save_tensors writes: {where}: {first['msg']}. Write it again."
        ) from error
    _check_places(entries)
    return entries


def _check_places(entries: Sequence[Entry]) -> None:
    end, names = 0, set()
    for entry in entries:
        if entry.offset != end or entry.name in names:
            raise TensorFileError(
                f"tensor {entry.name!r} is at byte {entry.offset} of the data, and the one "
                f"before it ends at {end}"
                f"{', and there are two of that name' if entry.name in names else ''}. Write "
                "the file again."
            )
        end = entry.end
        names.add(entry.name)


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write `tensors` to `path`, in their order, in place of what may lie there.

    The file gets its name only when all of it is on the disk. A process that is killed
    meanwhile leaves the old file.

    Raises:
        TensorFileError: Writing failed, or a name is not printable text.
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
        TensorFileError: The file cannot be read, has no tensors, or is cut short or
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
    """Read the file's tensors and check its length; leave it at the data."""
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
    """Open a new file that takes the place of `path` if the block ends well."""
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
