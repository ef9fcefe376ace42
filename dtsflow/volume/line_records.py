"""The lines of text files as records."""

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from dtsflow.errors import VolumeError
from dtsflow.volume.split import Split

_PIECE_BYTES = 1 << 22
_NEWLINE = ord("\n")

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LineRecords:
    """Where each line begins and how long it is; satisfies IndexedRecords.

    Attributes:
        paths: The files.
        sizes: Bytes of each file.
        starts: Where each line begins, in its file.
        lengths: Bytes of each line, with its end.
        first_lines: The number of each file's first line, counting all.
        content: SHA-256 over all bytes of all files.
        buffer: How many neighbours may be shuffled.
        split: What each rank is given of a global batch.
    """

    paths: tuple[Path, ...]
    sizes: tuple[int, ...]
    starts: Ints
    lengths: Ints
    first_lines: Ints
    content: str
    buffer: int | None = None
    split: Split = Split.ROWS

    def __len__(self) -> int:
        return len(self.starts)

    def where(self, number: int) -> str:
        """The file and line, counted from 1."""
        file = self.file_of(number)
        return f"{self.paths[file]}, line {number - int(self.first_lines[file]) + 1}"

    @property
    def held_bytes(self) -> int:
        """Bytes of the list of lines."""
        return self.starts.nbytes + self.lengths.nbytes + self.first_lines.nbytes

    def digest(self) -> str:
        """What the files hold; not what they are called."""
        return self.content

    def start(self) -> "LineReader":
        """A reader for one worker."""
        return LineReader(self)

    def file_of(self, number: int) -> int:
        """Which of the files has a line."""
        return int(np.searchsorted(self.first_lines, number, side="right")) - 1


class LineReader:
    """Reads lines; satisfies RecordReader. It keeps the files open that it has read."""

    def __init__(self, lines: LineRecords) -> None:
        self._lines = lines
        self._files: dict[int, BinaryIO] = {}
        self._open = ExitStack()

    def read(self, number: int) -> bytes:
        r"""A line without its end, `\n` or `\r\n`.

        Raises:
            VolumeError: Its file is gone, or another one than was listed.
        """
        lines, file = self._lines, self._lines.file_of(number)
        opened = self._file(file)
        opened.seek(int(lines.starts[number]))
        line = opened.read(int(lines.lengths[number]))
        if len(line) != lines.lengths[number]:
            raise _changed(lines.paths[file])
        return line.removesuffix(b"\n").removesuffix(b"\r")

    def close(self) -> None:
        """Close the files."""
        self._open.close()
        self._files = {}

    def _file(self, file: int) -> BinaryIO:
        if file not in self._files:
            path = self._lines.paths[file]
            opened = self._open.enter_context(_opened(path))
            if opened.seek(0, 2) != self._lines.sizes[file]:
                raise _changed(path)
            self._files[file] = opened
        return self._files[file]


def list_lines(
    paths: Sequence[Path], buffer: int | None = None, split: Split = Split.ROWS
) -> LineRecords:
    """Find the lines of files; a file's last one needs no end.

    Raises:
        VolumeError: A file cannot be read.
    """
    content = hashlib.sha256()
    starts, lengths, sizes, first_lines = [], [], [], [0]
    for path in paths:
        ends, size = _line_ends(path, content)
        begins = np.concatenate(([0], ends[:-1]))
        starts.append(begins)
        lengths.append(ends - begins)
        sizes.append(size)
        first_lines.append(first_lines[-1] + len(ends))
    return LineRecords(
        tuple(paths),
        tuple(sizes),
        np.concatenate(starts),
        np.concatenate(lengths),
        np.array(first_lines[:-1], np.int64),
        content.hexdigest(),
        buffer,
        split,
    )


def _line_ends(path: Path, content: "hashlib._Hash") -> tuple[Ints, int]:
    """Where each line of a file ends, and how long the file is."""
    found: list[Ints] = []
    size = 0
    with _opened(path) as file:
        while piece := file.read(_PIECE_BYTES):
            content.update(piece)
            found.append(np.flatnonzero(np.frombuffer(piece, np.uint8) == _NEWLINE) + 1 + size)
            size += len(piece)
    ends = np.concatenate(found) if found else np.empty(0, np.int64)
    if size and (not len(ends) or ends[-1] != size):
        ends = np.append(ends, size)
    return ends.astype(np.int64), size


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise VolumeError(
            f"{path} cannot be opened: {error.strerror}. Check that it is there and that you may "
            "read it."
        ) from error


def _changed(path: Path) -> VolumeError:
    return VolumeError(
        f"{path} changed since its lines were listed. Something writes to it: let it end, then "
        "start again."
    )
