"""What a file of tensors holds and where: its first bytes.

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
import struct
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Final

from pydantic import Field, TypeAdapter, ValidationError

from dtsflow.errors import TensorFileError
from dtsflow.memory.align import align256
from dtsflow.tensor.dtype import DType

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
        """Bytes of its elements."""
        n, h, w, c = self.shape
        return n * h * w * c * self.dtype.itemsize

    @property
    def end(self) -> int:
        """Where the next tensor begins, or the data ends."""
        return self.offset + align256(self.nbytes)


_ENTRIES: Final = TypeAdapter(tuple[Entry, ...])


def encode(entries: Sequence[Entry]) -> bytes:
    """The file's bytes up to its data."""
    plain = [{**asdict(entry), "dtype": entry.dtype.value} for entry in entries]
    text = json.dumps(plain, separators=(",", ":")).encode()
    head = HEAD.pack(MAGIC, VERSION, len(text))
    crc = _CRC.pack(zlib.crc32(text, zlib.crc32(head)))
    whole = head + crc + text
    return whole.ljust(align256(len(whole)), b"\0")


def json_bytes(head: bytes) -> int:
    """The length of the JSON, from a file's first 16 bytes.

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
    """The tensors of a file, from its bytes up to the end of the JSON.

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
