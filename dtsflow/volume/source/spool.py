"""Images from a Parquet file, unpacked once into a file of their own."""

import hashlib
import logging
import os
import secrets
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PackError
from dtsflow.volume.exact_read import opened, read_bytes
from dtsflow.volume.replacing import check_space
from dtsflow.volume.source.parquet_table import ParquetTable
from dtsflow.volume.source.stored import Stored

log = logging.getLogger(__name__)

NO_IMAGE = -1  # the size of a row without one

_END = struct.Struct("<8sqI")  # magic, rows, CRC-32 of the sizes; the sizes lie before it
_MAGIC = b"DTSSPOOL"
_SUFFIX = ".images"


@dataclass(frozen=True, slots=True, eq=False)
class Spool:
    """The images of a table behind one another, in the order of its rows.

    `sizes` has an entry per row, `NO_IMAGE` where it has none.
    """

    path: Path
    sizes: npt.NDArray[np.int64]
    file_bytes: int
    mtime_ns: int

    def stored(self) -> list[Stored | None]:
        """Where the image of each row lies; None where it has none."""
        lengths = np.maximum(self.sizes, 0)
        starts = (np.cumsum(lengths) - lengths).tolist()
        path = str(self.path)
        return [
            None if size < 0 else Stored(path, start, size, self.file_bytes, self.mtime_ns)
            for start, size in zip(starts, self.sizes.tolist(), strict=True)
        ]


def spool(table: ParquetTable, column: str, folder: Path) -> Spool:
    """Unpack the images of a column into a file in `folder`, unless that was done.

    The file's name has a digest of the table's place, size and time of change in it,
    so that another table makes another file; it takes the name when it is whole.

    Raises:
        PackError: The table is damaged, or the disk is full or cannot be written.
    """
    path = folder / _name(table, column)
    try:
        if not path.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            check_space(folder, table.image_bytes(column), what=f"unpacking {table.path}")
            log.info("unpacking the images of %s into %s", table.path, path)
            _make(path, table, column)
        return _load(path, table.num_rows)
    except OSError as error:
        raise PackError(
            f"{path} cannot be written or read: {error.strerror or error}. Check the disk and its "
            "free space, or choose another folder (--spool, volume.spool)."
        ) from error


def _name(table: ParquetTable, column: str) -> str:
    state = table.path.stat()
    facts = (str(table.path.resolve()), state.st_size, state.st_mtime_ns, column)
    digest = hashlib.sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()
    return f"{table.path.stem}-{digest[:16]}{_SUFFIX}"


def _make(path: Path, table: ParquetTable, column: str) -> None:
    # Several processes may make the same one: each its own, whole, in turn.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            _write(file, table, column)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write(file: BinaryIO, table: ParquetTable, column: str) -> None:
    sizes: list[int] = []
    for images in table.images(column):
        sizes += [NO_IMAGE if data is None else len(data) for data in images]
        file.writelines(data for data in images if data)
    text = np.array(sizes, "<i8").tobytes()
    file.write(text + _END.pack(_MAGIC, len(sizes), zlib.crc32(text)))


def _load(path: Path, rows: int) -> Spool:
    with opened(path) as descriptor:
        state = os.fstat(descriptor)
        end = 8 * rows + _END.size
        if state.st_size < end:
            raise _damaged(path)
        text = read_bytes(descriptor, end, state.st_size - end, path).tobytes()
    sizes = np.frombuffer(text, "<i8", rows).astype(np.int64)
    found = _END.unpack_from(text, 8 * rows)
    images = int(np.maximum(sizes, 0).sum())
    if found != (_MAGIC, rows, zlib.crc32(text[: 8 * rows])) or images + end != state.st_size:
        raise _damaged(path)
    return Spool(path, sizes, state.st_size, state.st_mtime_ns)


def _damaged(path: Path) -> PackError:
    return PackError(
        f"{path}, which images were unpacked into, is cut short or damaged. Remove it, and they "
        "are unpacked again."
    )
