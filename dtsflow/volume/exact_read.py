"""Reading exactly the bytes asked for, into memory the caller owns."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt

from dtsflow.errors import VolumeError

PIECE_BYTES = 1 << 22  # large enough for a disk, small enough to stop between two

_SEEK = Lock()  # without preadv a descriptor has one position for all its threads


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor of `path` for reading, closed at the end of the block."""
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

    `stop` is asked before each piece; where it says so, the rest is left and the answer
    is False. Several threads may read one descriptor.

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
