"""Safe reading and writing: exact reads, CRC-32, and files that appear only when whole.

Reads fill memory that the caller owns. The CRC-32 of a whole can be combined from those
of its parts. `replacing` gives a new file its name only when all of it is on the disk,
and `appearing` a new folder only when all of it is written.
"""

import os
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from dtsflow.errors import PackError, VolumeError
from dtsflow.native.core import load

PIECE_BYTES = 1 << 22  # large enough for a disk, small enough to stop between two

_SEEK = Lock()  # without preadv a descriptor has one position for all its threads


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Open `path` for reading; close the descriptor at the end of the block."""
    descriptor = open_descriptor(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_descriptor(path: Path) -> int:
    """Open `path` for reading; the caller closes it with `os.close`.

    Raises:
        VolumeError: It cannot be opened, with the system's reason.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        return os.open(path, flags)
    except OSError as error:
        raise VolumeError(
            f"{path} cannot be opened: {error.strerror}. Check that it is there and that "
            "you may read it."
        ) from error


def read_into(
    descriptor: int,
    memory: npt.NDArray[np.uint8],
    offset: int,
    path: Path,
    *,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Fill all of `memory` from byte `offset` on; `path` is only named in errors.

    `stop` is called before each piece. If it returns True, the rest is not read and the
    result is False. Several threads may read one descriptor.

    Raises:
        VolumeError: The file ends first, or the disk fails; names wanted and got.
    """
    done = 0
    while done < len(memory):
        if stop():
            return False
        piece = memory[done : done + PIECE_BYTES]
        try:
            got = _read_piece(descriptor, piece, offset + done)
        except OSError as error:
            raise VolumeError(
                f"{path}: reading {len(piece)} bytes at {offset + done} failed: "
                f"{error.strerror}. Check the disk, then try again."
            ) from error
        if got == 0:
            raise VolumeError(
                f"{path} ended early: wanted {len(memory)} bytes at {offset}, got {done}. "
                "The file is cut short, or was replaced while it was read."
            )
        done += got
    return True


def read_bytes(descriptor: int, size: int, offset: int, path: Path) -> npt.NDArray[np.uint8]:
    """Read `size` bytes from `offset` on into new memory, as `read_into` does."""
    memory = np.empty(size, np.uint8)
    read_into(descriptor, memory, offset, path)
    return memory


def _read_piece(descriptor: int, piece: npt.NDArray[np.uint8], offset: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [piece.data], offset)
    with _SEEK:
        os.lseek(descriptor, offset, os.SEEK_SET)
        got = os.read(descriptor, len(piece))
    piece[: len(got)] = np.frombuffer(got, np.uint8)
    return len(got)


Matrix = tuple[int, ...]  # 32 columns over GF(2): column i is what bit i turns into

_POLYNOMIAL = 0xEDB88320  # of zlib's CRC-32, reflected


def crc32(data: bytes | memoryview, value: int = 0) -> int:
    """Return the CRC-32 of contiguous bytes; `value` is that of the bytes before them.

    The compiled core computes it if it is there and faster than zlib. Both work without
    the GIL and give the same.
    """
    core = load()
    # Its portable path, which has a table alone, takes about twice as long as zlib.
    if core is None or core.cpu_level() == "portable":
        return zlib.crc32(data, value)
    crc: int = core.crc32(data, value)
    return crc


def combine(first: int, second: int, second_bytes: int) -> int:
    """Return the CRC-32 of two byte strings after each other, from their CRC-32s.

    Running a CRC over zero bytes is linear over GF(2): a matrix carries `first` over
    `second_bytes` of them, and the start and end values of the two cancel.
    """
    return _times(_zero_bytes(second_bytes), first) ^ second


def combine_blocks(crcs: Iterable[int], block_bytes: int) -> int:
    """Return the CRC-32 of equally long blocks in a row, from their CRC-32s."""
    whole = 0
    for crc in crcs:
        whole = combine(whole, crc, block_bytes)
    return whole


@lru_cache(maxsize=8)
def _zero_bytes(count: int) -> Matrix:
    """Return the matrix that `count` zero bytes apply to a CRC register."""
    result: Matrix = tuple(1 << bit for bit in range(32))
    power: Matrix = (_POLYNOMIAL, *(1 << bit for bit in range(31)))  # one zero bit
    bits = 8 * count
    while bits:
        if bits & 1:
            result = _product(power, result)
        power = _product(power, power)
        bits >>= 1
    return result


def _product(left: Matrix, right: Matrix) -> Matrix:
    return tuple(_times(left, column) for column in right)


def _times(matrix: Matrix, vector: int) -> int:
    total = 0
    for column in matrix:
        if not vector:
            break
        if vector & 1:
            total ^= column
        vector >>= 1
    return total


def refuse_existing(destination: Path) -> None:
    """Raise PackError if something lies where a volume is to be written."""
    if os.path.lexists(destination):
        raise PackError(
            f"{destination} exists already, and a volume is never overwritten. Remove it, or "
            "choose another name or folder."
        )


def check_space(folder: Path, wanted: int, *, what: str = "the volume") -> None:
    """Raise PackError if `folder` is missing or has less than `wanted` bytes left.

    `what` names in the message what is to be written there.
    """
    if not folder.is_dir():
        raise PackError(f"{folder} is no folder. Make it first, or choose another.")
    free = shutil.disk_usage(folder).free
    if free < wanted:
        raise PackError(
            f"{folder} has {free} bytes free, {what} takes {wanted}. Free some, or write "
            "to another disk."
        )


@contextmanager
def replacing(destination: Path) -> Iterator[BinaryIO]:
    """Open a new file that takes its name if the block ends well, else is removed.

    Its bytes are on the disk before it gets the name, and the name is before this
    returns.

    Raises:
        PackError: The destination exists, or writing failed.
    """
    # Hidden, in the same folder: a scan never sees it and the rename stays on one disk.
    temporary = destination.with_name(f".{destination.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        refuse_existing(destination)
        temporary.rename(destination)
    except OSError as error:
        raise PackError(
            f"{destination} could not be written: {error}. Nothing was left behind; check "
            "the disk and its free space, then try again."
        ) from error
    finally:
        with suppress(OSError):  # the name itself may be what the system refuses
            temporary.unlink(missing_ok=True)
    sync_folder(destination.parent)


def sync_folder(folder: Path) -> None:
    """Put the names of a folder's files on the disk."""
    if os.name != "posix":
        return  # elsewhere a folder cannot be opened, and a rename needs no such help
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refuse_existing_folder(folder: Path) -> None:
    """Raise PackError if something lies where a folder is to appear."""
    if os.path.lexists(folder):
        raise PackError(f"{folder} exists already. Remove it, or choose another folder.")


@contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Make a new folder that takes its name if the block ends well, else is removed.

    The block fills the hidden folder that it is given. Missing folders above are made.
    Nothing is forced to the disk: after a power cut, write it again.

    Raises:
        PackError: `folder` exists, or the system refused to write.
    """
    refuse_existing_folder(folder)
    unfinished = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        unfinished.rename(folder)
    except OSError as error:
        raise PackError(
            f"{folder} could not be written: {error}. Nothing was left behind; check the disk "
            "and its free space, then try again."
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
