"""The lines of text files as records, and numbered files that are one stream.

Numbered files are such as part-000, part-001, and so on.
"""

import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt

from dtsflow.errors import SetError, VolumeError
from dtsflow.volume.data_set import Split
from dtsflow.volume.datasets.image_list import folder_at

_PIECE_BYTES = 1 << 22
_NEWLINE = ord("\n")

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LineRecords:
    """The start and the length of each line; satisfies IndexedRecords.

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
        """Name the file and the line, counted from 1."""
        file = self.file_of(number)
        return f"{self.paths[file]}, line {number - int(self.first_lines[file]) + 1}"

    @property
    def held_bytes(self) -> int:
        """Return the bytes that the list of lines takes."""
        return self.starts.nbytes + self.lengths.nbytes + self.first_lines.nbytes

    def digest(self) -> str:
        """Return a digest of what the files hold, without their names."""
        return self.content

    def start(self) -> "LineReader":
        """Start a reader for one worker."""
        return LineReader(self)

    def file_of(self, number: int) -> int:
        """Return the number of the file that has a line."""
        return int(np.searchsorted(self.first_lines, number, side="right")) - 1


class LineReader:
    """A reader of lines; satisfies RecordReader. Files stay open once they are used."""

    def __init__(self, lines: LineRecords) -> None:
        self._lines = lines
        self._files: dict[int, BinaryIO] = {}
        self._open = ExitStack()

    def read(self, number: int) -> bytes:
        r"""Read a line, without its end, `\n` or `\r\n`.

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
    """Return where each line of a file ends, and how long the file is."""
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


@dataclass(frozen=True, slots=True)
class PartFiles:
    """Files that are read one after the other as if they were one."""

    paths: tuple[Path, ...]

    @classmethod
    def numbered(
        cls, folder: str | Path, count: int, prefix: str = "part-", suffix_length: int = -1
    ) -> Self:
        """Find the files `prefix` + number in `folder`, for the numbers below `count`.

        Numbers have `suffix_length` digits, with zeros in front; -1 means no zeros.
        `folder` may be in a package, as `pkg://PACKAGE/FOLDER`.

        Raises:
            SetError: A file is missing or empty; names it and the files that are there.
        """
        place = folder_at(folder)
        if count < 1:
            raise SetError(f"{place}: {count} parts were asked for, and there must be 1 or more.")
        paths = [place / f"{prefix}{number:0{max(0, suffix_length)}d}" for number in range(count)]
        for path in paths:
            if not path.is_file():
                raise SetError(f"{path} is not there. {_what_is(place, prefix)}")
            if not path.stat().st_size:
                raise SetError(
                    f"{path} is empty, and every part must hold something. Write it again, or "
                    "number the parts without it."
                )
        return cls(tuple(paths))

    def open(self) -> "PartStream":
        """Read them from the beginning; use it in a `with`."""
        return PartStream(self.paths)

    def lines(self, *, buffer: int | None = None, split: Split = Split.ROWS) -> LineRecords:
        """Find each line and make it a record, without its end.

        `buffer` and `split` are as `Records` has them.

        The files are read once as a whole, to find the lines.

        Raises:
            VolumeError: A file cannot be read.
        """
        return list_lines(self.paths, buffer, split)


class PartStream:
    """A reader of parts; the next one begins where one ends."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = iter(paths)
        self._names = ", ".join(path.name for path in paths)
        self._open = ExitStack()
        self._file: io.BufferedReader | None = None
        self._place = f"the beginning of {self._names}"
        self._line = 0

    @property
    def where(self) -> str:
        """Name the file and line of the last `read_line`, or the file and byte."""
        return self._place

    def read_line(self) -> bytes | None:
        r"""Read the next line without its end, `\n` or `\r\n`; None after the last.

        A line ends where its part does, at the latest.
        """
        while (file := self._current()) is not None:
            if line := file.readline():
                self._line += 1
                self._place = f"{file.name}, line {self._line}"
                return line.removesuffix(b"\n").removesuffix(b"\r")
            self._file = None
        return None

    def read_exactly(self, size: int) -> bytes | None:
        """Read the next `size` bytes, across the ends of parts; None after the last.

        Raises:
            VolumeError: There are some, and fewer than that.
        """
        pieces: list[bytes] = []
        missing = size
        while missing and (file := self._current()) is not None:
            self._place = f"{file.name}, byte {file.tell()}"
            if piece := file.read(missing):
                pieces.append(piece)
                missing -= len(piece)
            else:
                self._file = None
        if missing and pieces:
            raise VolumeError(
                f"{self._place}: the last part ended {missing} bytes early: {size} were wanted, "
                f"and {size - missing} are left. It is cut short, or {size} is not the size of a "
                "record."
            )
        return None if missing else b"".join(pieces)

    def __iter__(self) -> Iterator[bytes]:
        while (line := self.read_line()) is not None:
            yield line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def _current(self) -> io.BufferedReader | None:
        """Return the file that is read; None behind the last one."""
        if self._file is None and (path := next(self._paths, None)) is not None:
            self._open.close()
            try:
                self._file = self._open.enter_context(path.open("rb"))
            except OSError as error:
                raise VolumeError(f"{path} cannot be opened: {error.strerror}.") from error
            self._line = 0
        return self._file


def _what_is(place: Path, prefix: str) -> str:
    """Advise what to do about a missing part, from the names that are there."""
    if not place.is_dir():
        return f"{place} is no folder: name the folder that holds the parts."
    found = sorted(path.name for path in place.glob(f"{prefix}*") if path.is_file())
    if not found:
        return f"{place} has no file whose name begins with {prefix!r}."
    digits = {len(name) - len(prefix) for name in found if name[len(prefix) :].isdecimal()}
    shown = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")  # noqa: PLR2004
    padded = [length for length in sorted(digits) if length > 1]
    hint = f" Numbers of {padded[0]} digits are suffix length {padded[0]}." if padded else ""
    return f"There are {len(found)} parts: {shown}. Give their number and suffix length.{hint}"
