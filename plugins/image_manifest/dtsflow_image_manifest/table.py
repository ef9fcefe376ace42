"""The rows of a manifest: CSV with a header, or JSON Lines."""

import csv
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from dtsflow.plugin import VolumeError

Row = tuple[int, Sequence[object]]  # the number of its line, and the cells asked for

CSV, JSON_LINES = ".csv", ".jsonl"


@dataclass(frozen=True, slots=True)
class Table:
    """Some columns of a manifest.

    Attributes:
        path: The manifest.
        lines: The line of each row, from 1; of a CSV row over several, the last.
        columns: The cells of each column: texts of a CSV, or what JSON says.
    """

    path: Path
    lines: Sequence[int]
    columns: Mapping[str, Sequence[object]]

    def __len__(self) -> int:
        return len(self.lines)

    def where(self, row: int) -> str:
        """The file and line of a row."""
        return f"{self.path}, line {self.lines[row]}"

    @property
    def is_csv(self) -> bool:
        """Whether all cells are texts."""
        return self.path.suffix.lower() == CSV


def read_table(path: Path, names: Sequence[str]) -> Table:
    """Read the columns `names` of all rows; blank lines are passed over.

    Raises:
        VolumeError: The file cannot be read or has no row; a column is missing or comes
            twice; a row has too few cells, or too many, or is no JSON object.
    """
    lines: list[int] = []
    found: list[Sequence[object]] = []
    wanted = [*dict.fromkeys(names)]
    rows = _rows_of(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for line, cells in rows(path, file, wanted):
                lines.append(line)
                found.append(cells)
    except OSError as error:
        raise VolumeError(f"{path} cannot be read: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise VolumeError(f"{path} is no UTF-8 text: {error}. Save it as UTF-8.") from error
    if not lines:
        raise VolumeError(f"{path} lists no image. Write a row for each.")
    columns = zip(*found, strict=True)
    return Table(path, lines, dict(zip(wanted, columns, strict=True)))


def _rows_of(path: Path) -> Callable[[Path, TextIO, Sequence[str]], Iterator[Row]]:
    suffix = path.suffix.lower()
    if suffix not in (CSV, JSON_LINES):
        raise VolumeError(
            f"{path} is no manifest: its name ends neither with {CSV} nor with {JSON_LINES}. Call "
            "it by what it is."
        )
    return _csv_rows if suffix == CSV else _json_rows


def _csv_rows(path: Path, file: TextIO, names: Sequence[str]) -> Iterator[Row]:
    rows = csv.reader(file, skipinitialspace=True, strict=True)
    try:
        header = [name.strip() for name in next(rows, [])]
        _check_header(path, header, names)
        places = [header.index(name) for name in names]
        for cells in rows:
            if not cells:
                continue
            if len(cells) != len(header):
                raise VolumeError(
                    f"{path}, line {rows.line_num}: {len(cells)} cells, and the header names "
                    f"{len(header)} columns. Quote a cell that has commas in it."
                )
            yield rows.line_num, [cells[place] for place in places]
    except csv.Error as error:
        raise VolumeError(f"{path}, line {rows.line_num} is no CSV: {error}.") from error


def _check_header(path: Path, header: Sequence[str], names: Sequence[str]) -> None:
    if not header:
        raise VolumeError(f"{path} is empty. Write a header of column names, and a row an image.")
    for name in header:
        if header.count(name) > 1:
            raise VolumeError(
                f"{path}, line 1: two columns are called {name!r}. Rename one, or remove it."
            )
    _check_names(f"{path}, line 1", header, names)


def _json_rows(path: Path, file: TextIO, names: Sequence[str]) -> Iterator[Row]:
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)
    for line, text in enumerate(file, 1):
        if not text.strip():
            continue
        where = f"{path}, line {line}"
        try:
            cells = decoder.decode(text)
        except (ValueError, RecursionError) as error:
            raise VolumeError(f"{where} is no JSON: {error}. Write one object a line.") from error
        if not isinstance(cells, dict):
            raise VolumeError(f"{where} is {text.strip()[:40]!r}, and must be a JSON object.")
        _check_names(where, cells, names)
        yield line, [cells[name] for name in names]


def _check_names(where: str, found: Collection[str], names: Sequence[str]) -> None:
    for name in names:
        if name not in found:
            raise VolumeError(
                f"{where}: there is no column {name!r} among {', '.join(map(repr, found))}. Add "
                "it, or name another in the configuration."
            )


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} comes twice")
    return made


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")
