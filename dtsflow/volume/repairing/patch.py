"""Changes to a file in place, such as putting back blocks at wrong indexes."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, Self

from dtsflow.errors import VolumeError


class Patch:
    """A writer of single parts of one file; it records what was done and what was not.

    In a dry run the file is not even opened, and `done` lists what would be done. The
    changes are on the disk when the context ends.
    """

    def __init__(self, path: Path, *, dry_run: bool) -> None:
        self.path = path
        self.done: list[str] = []
        self.left: list[str] = []
        self._dry_run = dry_run
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        if not self._dry_run:
            try:
                self._file = self.path.open("r+b", buffering=0)
            except OSError as error:
                raise VolumeError(
                    f"{self.path} cannot be opened for writing: {error.strerror}. Check that "
                    "you may change it, or mend a copy."
                ) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with self._file as file:
                os.fsync(file.fileno())
            self._file = None

    def write(self, offset: int, data: bytes | memoryview, what: str) -> None:
        """Put all of `data` at `offset`, past the end too.

        Raises:
            VolumeError: The disk fails or is full.
        """
        if self._file is not None:
            self._write(self._file, offset, memoryview(data))
        self.done.append(what)

    def cut(self, size: int, what: str) -> None:
        """Leave the first `size` bytes only."""
        if self._file is not None:
            self._file.truncate(size)
        self.done.append(what)

    def _write(self, file: BinaryIO, offset: int, data: memoryview) -> None:
        file.seek(offset)
        try:
            while data:  # a raw write may take less than it is given
                data = data[file.write(data) :]
        except OSError as error:
            raise VolumeError(
                f"{self.path}: writing at byte {offset} failed: {error.strerror}. Check the disk "
                "and its free space, then run the repair again."
            ) from error


Read = Callable[[int], bytes]
Write = Callable[[int, bytes], None]


def move(sources: Mapping[int, int], read: Read, write: Write) -> None:
    """Move each block to its index; `sources` maps each index to where its block lies.

    No block is overwritten before it was read. In a ring of blocks that take each
    other's index, one block is held in memory meanwhile; a machine that stops then
    loses it.
    """
    pending = dict(sources)
    held: dict[int, bytes] = {}
    while pending:
        place = next((one for one in pending if one not in pending.values()), None)
        if place is None:  # only rings are left
            place = next(iter(pending))
            held[place] = read(place)
            for other, source in pending.items():
                if source == place:
                    pending[other] = -1 - place  # a name for what is held
        source = pending.pop(place)
        write(place, held.pop(-1 - source) if source < 0 else read(source))
