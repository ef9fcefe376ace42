"""Numbered files that are one stream: part-000, part-001, and so on."""

import io
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from dtsflow.errors import SetError, VolumeError
from dtsflow.volume.line_records import LineRecords, list_lines
from dtsflow.volume.package_folder import folder_at
from dtsflow.volume.split import Split


@dataclass(frozen=True, slots=True)
class PartFiles:
    """Files that are read one after the other as if they were one."""

    paths: tuple[Path, ...]

    @classmethod
    def numbered(
        cls, folder: str | Path, count: int, prefix: str = "part-", suffix_length: int = -1
    ) -> Self:
        """The files `prefix` + number in `folder`, for the numbers below `count`.

        Numbers have `suffix_length` digits, zeros in front; -1: no zeros. `folder` may
        be one of a package, as `pkg://PACKAGE/FOLDER`.

        Raises:
            SetError: One is not there, or is empty; says which, and which are there.
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
        """Each line as a record, without its end.

        `buffer` and `split` are as `Records` has them.

        All of the files is read once, to find the lines.

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
        """The file and line of what `read_line` gave last, or the file and byte."""
        return self._place

    def read_line(self) -> bytes | None:
        r"""The next line without its end, `\n` or `\r\n`; None behind the last one.

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
        """The next `size` bytes, across parts where one ends; None behind the last.

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
        """The file that is read; None behind the last one."""
        if self._file is None and (path := next(self._paths, None)) is not None:
            self._open.close()
            try:
                self._file = self._open.enter_context(path.open("rb"))
            except OSError as error:
                raise VolumeError(f"{path} cannot be opened: {error.strerror}.") from error
            self._line = 0
        return self._file


def _what_is(place: Path, prefix: str) -> str:
    """What to do about a missing part, from the names that are there."""
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
