"""Parquet files with a column of images as a source, as the library datasets writes."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from dtsflow.errors import PackError
from dtsflow.volume.image_suffix import SIGNATURE_BYTES, sniffed_suffix
from dtsflow.volume.source.field_labels import FieldLabels
from dtsflow.volume.source.listing import NO_CLASS, Listing, Reject, SourceImage
from dtsflow.volume.source.parquet_columns import Columns, find_columns
from dtsflow.volume.source.parquet_table import ParquetTable
from dtsflow.volume.source.safe_name import is_hidden, why_unsafe
from dtsflow.volume.source.source_format import SourceFormat
from dtsflow.volume.source.spool import spool
from dtsflow.volume.source.stored import Stored

_GIGABYTE = 1e9


def read_parquet(paths: Sequence[Path], source_format: SourceFormat) -> Listing:
    """List the images of all files, unpacking them into `spool` where they are not yet.

    `find_columns` says which columns count. A number is a label, of the class names
    that the file has for it, or `classnames.txt` beside the first file; a text is a
    class. Images have the names they had before, if all rows have one and no two the
    same; else the name of the file, the row and the suffix of what they are.

    Rows without an image are rejects, rows without a label (none, or -1) lie in no
    class.

    Raises:
        MissingPartError: pyarrow is not installed.
        PackError: No spool is given; a file is damaged, or has other columns than the
            first; a number is no label.
    """
    tables = [ParquetTable.of(path) for path in paths]
    columns = find_columns(tables[0], source_format)
    for table in tables[1:]:
        _check_same(columns, table, tables[0], source_format)
    if source_format.spool is None:
        raise _no_spool(tables, columns)
    stored: list[Stored | None] = []
    for table in tables:
        stored += spool(table, columns.image, source_format.spool).stored()
    classes, numbers = _labels(tables, columns)
    rows = [(table.path, row) for table in tables for row in range(table.num_rows)]
    names = _names(tables, columns.image, stored)
    why = f"has no label in the column {columns.label}" if columns.label else "no label column"
    images = []
    rejects = []
    for name, number, place, (path, row) in zip(names, numbers, stored, rows, strict=True):
        if place is None:
            rejects.append(Reject(f"{path.name}:{row}", "a row without the bytes of an image"))
        else:
            images.append(SourceImage(name, number, place, f"{why} ({path.name}:{row})"))
    images.sort(key=lambda image: image.name)
    return Listing(classes, tuple(images), tuple(rejects), has_label_fields=bool(columns.label))


def _check_same(
    columns: Columns, table: ParquetTable, first: ParquetTable, source_format: SourceFormat
) -> None:
    found = find_columns(table, source_format)
    if found != columns or table.kinds[found.image] != first.kinds[columns.image]:
        raise PackError(
            f"{table.path} has other columns or class names than {first.path}. Pack each alone."
        )


def _no_spool(tables: Sequence[ParquetTable], columns: Columns) -> PackError:
    size = sum(table.image_bytes(columns.image) for table in tables) / _GIGABYTE
    return PackError(
        f"{tables[0].path} holds images in compressed pages, where none can be read alone: they "
        f"are unpacked once, here about {size:.1f} GB. Give a folder for that: --spool FOLDER, or "
        "volume.spool=FOLDER."
    )


def _labels(tables: Sequence[ParquetTable], columns: Columns) -> tuple[tuple[str, ...], list[int]]:
    """The classes, and the label of every row."""
    if columns.label is None:
        return (), [NO_CLASS] * sum(table.num_rows for table in tables)
    values = [value for table in tables for value in table.values(columns.label)]
    texts = ["" if value is None or value == -1 else str(value).strip() for value in values]
    if columns.class_names is None:
        labels = FieldLabels.of({text for text in texts if text}, tables[0].path)
        return labels.classes, [labels.number(text) for text in texts]
    count = len(columns.class_names)
    for row, text in enumerate(texts):
        if text and not 0 <= int(text) < count:
            raise PackError(
                f"{tables[0].path}: row {row} of the set has label {text} in {columns.label!r}, "
                f"which has {count} class names. The file is damaged, or was made wrongly."
            )
    return columns.class_names, [int(text) if text else NO_CLASS for text in texts]


def _names(
    tables: Sequence[ParquetTable], column: str, stored: Sequence[Stored | None]
) -> list[str]:
    own = [name for table in tables for name in table.names(column)]
    kept = {name for name in own if name and not why_unsafe(name) and not is_hidden(name)}
    if own and len(kept) == len(own):
        return [str(name) for name in own]
    places = iter(stored)
    names: list[str] = []
    for table in tables:
        width = len(str(max(0, table.num_rows - 1)))
        names += [
            f"{table.path.stem}/{row:0{width}d}{_suffix(place)}"
            for row, place in enumerate(islice(places, table.num_rows))
        ]
    return names


def _suffix(stored: Stored | None) -> str:
    if stored is None:
        return ""
    return sniffed_suffix(stored.read_parts((0, min(SIGNATURE_BYTES, stored.size)))[0])
