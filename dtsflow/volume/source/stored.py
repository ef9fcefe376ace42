"""A run of bytes in a file: how every source says where an image lies."""

import io
import os
from dataclasses import dataclass

from dtsflow.errors import PackError


@dataclass(frozen=True, slots=True)
class Stored:
    """`size` bytes from `offset` on in the file at `path`.

    `file_bytes` and `mtime_ns` are the file's when it was listed: they tell whether it
    is still the same file.
    """

    path: str
    offset: int
    size: int
    file_bytes: int
    mtime_ns: int

    def read(self) -> bytes:
        """Read all the bytes.

        Raises:
            OSError: The file cannot be opened or read.
            PackError: The file is no longer the one that was listed.
        """
        return self.read_parts((0, self.size))[0]

    def read_parts(self, *parts: tuple[int, int]) -> list[bytes]:
        """Read several runs, each from a place in these bytes on and so long.

        Raises:
            OSError, PackError: As `read`.
        """
        with open(self.path, "rb", buffering=0) as file:  # noqa: PTH123  # a million Paths take a gigabyte
            state = os.fstat(file.fileno())
            if (state.st_size, state.st_mtime_ns) != (self.file_bytes, self.mtime_ns):
                raise _changed(self, state.st_size)
            return [self._read_part(file, start, size) for start, size in parts]

    def _read_part(self, file: io.FileIO, start: int, size: int) -> bytes:
        file.seek(self.offset + start)
        data = file.read(size)
        while len(data) < size:  # one read may give less than asked for
            more = file.read(size - len(data))
            if not more:
                raise _changed(self, self.offset + start + len(data))
            data += more
        return data


def whole_file(path: str, state: os.stat_result) -> Stored:
    """All of one file, whose `os.stat` is at hand."""
    return Stored(path, 0, state.st_size, state.st_size, state.st_mtime_ns)


def _changed(stored: Stored, now: int) -> PackError:
    return PackError(
        f"{stored.path} changed while it was packed: {stored.file_bytes} bytes before, {now} "
        "now (or another time of change). Pack again when nothing writes to the source."
    )
