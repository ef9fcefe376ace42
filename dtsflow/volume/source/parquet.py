"""Parquet files with a column of images as a source, as the library datasets writes.

This module alone imports pyarrow. `find_columns` chooses the columns of the images and
their labels. `spool` unpacks the images once into a file of their own.
"""

import hashlib
import json
import logging
import os
import secrets
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from dtsflow.errors import MissingPartError, PackError
from dtsflow.volume.format.io import check_space, opened, read_bytes
from dtsflow.volume.source.base import (
    NO_CLASS,
    SIGNATURE_BYTES,
    Listing,
    Reject,
    SourceFormat,
    SourceImage,
    Stored,
    is_hidden,
    sniffed_suffix,
    why_unsafe,
)
from dtsflow.volume.source.webdataset import FieldLabels

Kind = Literal["images", "bytes", "number", "text", "other"]

_BATCH_ROWS = 64  # of images that are in memory at a time
_BUFFER_BYTES = 1 << 20  # read at a time, so that a row group need not be in memory whole
_FEATURES_KEY = b"huggingface"  # where the datasets library describes its columns


@dataclass(frozen=True, slots=True)
class ParquetTable:
    """The description that a file has of itself; holds nothing open.

    `kinds` are those of the columns, in their order: `images` have the fields `bytes`
    and `path`. `features` describe columns as the library `datasets` does, if it wrote
    the file.
    """

    path: Path
    num_rows: int
    kinds: dict[str, Kind]
    features: dict[str, Any]

    @classmethod
    def of(cls, path: Path) -> "ParquetTable":
        """Read the end of a file, which describes it.

        Raises:
            MissingPartError: pyarrow is not installed.
            PackError: It cannot be read, or is not a Parquet file.
        """
        with _opened(path) as file:
            schema = file.schema_arrow
            kinds = {field.name: _kind(field.type) for field in schema}
            return cls(path, file.metadata.num_rows, kinds, _features(schema.metadata or {}))

    def image_bytes(self, column: str) -> int:
        """Estimate how many bytes the images of a column take unpacked."""
        leaf = self._leaf(column)
        with _opened(self.path) as file:
            groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
            chunks = [group.column(k) for group in groups for k in range(group.num_columns)]
            return sum(
                int(chunk.total_uncompressed_size)
                for chunk in chunks
                if chunk.path_in_schema == leaf
            )

    def images(self, column: str) -> Iterator[list[bytes | None]]:
        """Yield the stored bytes of every row, some rows at a time.

        Raises:
            PackError: The file is damaged or cannot be read.
        """
        with _opened(self.path) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=[self._leaf(column)]):
                (values,) = batch.columns
                values = values.field("bytes") if self.kinds[column] == "images" else values
                yield values.to_pylist()

    def names(self, column: str) -> list[str | None]:
        """Return the paths that the images of a column had; empty where it has none."""
        if self.kinds[column] != "images":
            return []
        with _opened(self.path) as file:
            (values,) = file.read(columns=[f"{column}.path"]).columns
            return [row and row.get("path") for row in values.to_pylist()]

    def values(self, column: str) -> list[Any]:
        """Return all values of a column of numbers or text."""
        with _opened(self.path) as file:
            (values,) = file.read(columns=[column]).columns
            found: list[Any] = values.to_pylist()
            return found

    def _leaf(self, column: str) -> str:
        return f"{column}.bytes" if self.kinds[column] == "images" else column


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file for reading; whatever pyarrow says of it becomes a PackError."""
    try:
        import pyarrow as pa  # noqa: PLC0415  # an extra: imported when a table is opened
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise MissingPartError(
            f"{path} is a Parquet file, and pyarrow, which reads them, is not installed. Install "
            "it with: pip install 'dtsflow[parquet]'"
        ) from error
    try:
        with pq.ParquetFile(
            path, pre_buffer=False, buffer_size=_BUFFER_BYTES, page_checksum_verification=True
        ) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise PackError(
            f"{path} cannot be read as Parquet; it is damaged, cut short or another kind of file: "
            f"{_first_line(error)}. Copy or download it again."
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def _kind(column: Any) -> Kind:
    import pyarrow.types as kinds  # noqa: PLC0415  # it is there: a file is open

    if kinds.is_struct(column):
        fields = {column.field(number).name for number in range(column.num_fields)}
        return "images" if {"bytes", "path"} <= fields else "other"
    if kinds.is_binary(column) or kinds.is_large_binary(column):
        return "bytes"
    if kinds.is_integer(column):
        return "number"
    return "text" if kinds.is_string(column) or kinds.is_large_string(column) else "other"


def _features(metadata: dict[bytes, bytes]) -> dict[str, Any]:
    """Return the columns as `datasets` describes them; none without such a text."""
    try:
        found = json.loads(metadata.get(_FEATURES_KEY, b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


_LABEL = "label"  # what a column of labels is called where nothing describes it


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of the columns; `label` is None, and `class_names` are, if none is."""

    image: str
    label: str | None
    class_names: tuple[str, ...] | None


def find_columns(table: ParquetTable, source_format: SourceFormat) -> Columns:
    """Choose the columns of a table.

    The images are `image_field`; else the one column of images, or else of bytes. The
    labels are `label_field`; else the one column of class labels, or else the one that
    is called `label`.

    Raises:
        PackError: A column that is asked for is not there or of another kind, or
            several could be meant.
    """
    label = _label(table, source_format.label_field)
    names = None if label is None else _class_names(table, label)
    return Columns(_image(table, source_format.image_field), label, names)


def _image(table: ParquetTable, asked: str | None) -> str:
    if asked is not None:
        return _asked(table, asked, {"images", "bytes"}, "images")
    kinds = table.kinds.items()
    found = [name for name, kind in kinds if kind == "images"]
    found = found or [name for name, kind in kinds if kind == "bytes"]
    if len(found) != 1:
        raise PackError(
            f"{table.path} has {len(found)} columns that may be images ({_listed(found)}) among "
            f"{_listed(table.kinds)}. Choose one: --image-field, or volume.image_field."
        )
    return found[0]


def _label(table: ParquetTable, asked: str | None) -> str | None:
    usable = {"number", "text"}
    if asked is not None:
        return _asked(table, asked, usable, "numbers or text")
    found = [
        name
        for name, kind in table.kinds.items()
        if kind == "number" and _is_class_label(table.features.get(name))
    ]
    if len(found) > 1:
        raise PackError(
            f"{table.path} has {len(found)} columns of labels: {_listed(found)}. Choose one: "
            "--label-field, or volume.label_field."
        )
    if found:
        return found[0]
    return _LABEL if table.kinds.get(_LABEL) in usable else None


def _asked(table: ParquetTable, name: str, kinds: set[str], what: str) -> str:
    if table.kinds.get(name) not in kinds:
        found = "has no column" if name not in table.kinds else "has other values in the column"
        raise PackError(
            f"{table.path} {found} {name!r}; it takes one of {what}. Its columns: "
            f"{_listed(table.kinds)}."
        )
    return name


def _is_class_label(feature: Any) -> bool:
    return isinstance(feature, dict) and feature.get("_type") == "ClassLabel"


def _class_names(table: ParquetTable, label: str) -> tuple[str, ...] | None:
    feature = table.features.get(label)
    names = feature.get("names") if feature is not None and _is_class_label(feature) else None
    if names is None:
        return None
    if not isinstance(names, list) or not names or len(set(map(str, names))) < len(names):
        raise PackError(f"{table.path} describes {label!r} with class names that are no list.")
    return tuple(map(str, names))


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"


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
        """Return where the image of each row lies; None where it has none."""
        lengths = np.maximum(self.sizes, 0)
        starts = (np.cumsum(lengths) - lengths).tolist()
        path = str(self.path)
        return [
            None if size < 0 else Stored(path, start, size, self.file_bytes, self.mtime_ns)
            for start, size in zip(starts, self.sizes.tolist(), strict=True)
        ]


def spool(table: ParquetTable, column: str, folder: Path) -> Spool:
    """Unpack the images of a column into a file in `folder`, unless that was done.

    The file's name has a digest of the table's path, size and time of change, so
    another table makes another file. The file gets its name when it is whole.

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


_GIGABYTE = 1e9


def read_parquet(paths: Sequence[Path], source_format: SourceFormat) -> Listing:
    """List the images of all files, unpacking them into `spool` where they are not yet.

    `find_columns` chooses the columns. A number is a label, of the class names that the
    file has for it, or `classnames.txt` beside the first file; a text is a class.
    Images have the names they had before, if all rows have one and no two the same;
    else the name of the file, the row and the suffix of what they are.

    Rows without an image are rejects, rows without a label (none, or -1) lie in no
    class.

    Raises:
        MissingPartError: pyarrow is not installed.
        PackError: No spool is given; a file is damaged, or has other columns than the
            first; a number is not a label.
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
    """Return the classes, and the label of every row."""
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
